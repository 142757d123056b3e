//! The host that a request names, read strictly: a host that two programs read in two ways could
//! pass a check in one of them.

use std::net::{IpAddr, Ipv6Addr};

use http::header::HOST;
use http::{Request, Version};

/// Returns the host that a request names, without its port. `None`: it names none, as HTTP/1.0
/// allows.
///
/// # Errors
/// A sentence about a request that names no host where it must, two hosts, or something else than a
/// host.
pub fn named<T>(request: &Request<T>) -> Result<Option<&str>, &'static str> {
    let mut headers = request.headers().get_all(HOST).iter();
    let header = match (headers.next(), headers.next()) {
        (_, Some(_)) => return Err("the request has two headers host; send one"),
        (header, None) => header.map(|value| value.to_str().unwrap_or("?")),
    };
    let header = header.map(host_of).transpose()?;
    let authority = request.uri().authority().map(|authority| host_of(authority.as_str()));
    match (authority.transpose()?, header) {
        (None, None) if request.version() == Version::HTTP_11 => {
            Err("the request names no host; send the header host")
        }
        (Some(one), Some(other)) if !one.eq_ignore_ascii_case(other) => {
            Err("the request names two different hosts; send one")
        }
        (authority, header) => Ok(authority.or(header)),
    }
}

/// Returns the host and port that a request names, as it names them; empty if it names none. The
/// request was checked by [`named`].
pub fn authority<T>(request: &Request<T>) -> &str {
    let header = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let given = request.uri().authority().map(http::uri::Authority::as_str).or(header);
    given.unwrap_or_default()
}

/// Returns whether a host is an address, or `localhost` or a name below it. Browsers resolve both
/// themselves, so that no page can give it an address.
pub fn is_local_name(host: &str) -> bool {
    let lower = host.to_ascii_lowercase();
    is_address(host) || lower == "localhost" || lower.ends_with(".localhost")
}

/// Returns whether a host is an address.
pub fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Returns the host of an authority: a name or an address of IPv4, or an address of IPv6 in
/// brackets.
fn host_of(authority: &str) -> Result<&str, &'static str> {
    let invalid =
        "the request names something that is no host; send NAME, NAME:PORT or [IPV6]:PORT";
    let end = match authority.starts_with('[') {
        true => authority.find(']').map(|at| at + 1),
        false => Some(authority.find(':').unwrap_or(authority.len())),
    };
    let (host, port) = authority.split_at(end.ok_or(invalid)?);
    let port = port.strip_prefix(':').unwrap_or(port);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest.trim_end_matches(']').parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_name),
    };
    let is_port = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    if is_host && is_port { Ok(host) } else { Err(invalid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: Version, uri: &str, hosts: &[&str]) -> Request<()> {
        let mut request = Request::get(uri).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_nothing_else() {
        for (given, expected) in [
            ("localhost", Some("localhost")),
            ("a-b.c_d.example:50051", Some("a-b.c_d.example")),
            ("a.example.:", Some("a.example.")),
            ("10.0.0.1:1", Some("10.0.0.1")),
            ("[::1]:1", Some("[::1]")),
            ("[::1]", Some("[::1]")),
            ("evil.example#.localhost", None),
            ("evil.example/.localhost", None),
            ("evil.example?.localhost:1", None),
            ("evil.example@localhost", None),
            ("evil.example\\.localhost", None),
            ("evil.example%00.localhost", None),
            ("evil.example .localhost", None),
            ("a:b", None),
            ("a:1:2", None),
            ("a:123456", None),
            ("[::1", None),
            ("[::1]x", None),
            ("[fe80::1%25eth0]", None),
            ("[localhost]", None),
            ("::1", None),
            ("", None),
            (":80", None),
            ("h\u{f6}st", None),
        ] {
            let request = request(Version::HTTP_11, "/", &[given]);
            assert_eq!(named(&request).ok().flatten(), expected, "{given}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let count = |version, uri, hosts: &[&str]| {
            named(&request(version, uri, hosts)).map(|host| host.is_some())
        };
        assert!(count(Version::HTTP_11, "/", &[]).is_err());
        assert!(count(Version::HTTP_11, "/", &["a", "a"]).is_err());
        assert_eq!(count(Version::HTTP_10, "/", &[]), Ok(false));
        assert_eq!(count(Version::HTTP_2, "http://a:1/", &[]), Ok(true));
        assert_eq!(count(Version::HTTP_2, "http://a:1/", &["A"]), Ok(true));
        assert!(count(Version::HTTP_2, "http://a/", &["evil.example"]).is_err());
        assert!(count(Version::HTTP_11, "http://a/", &["evil.example"]).is_err());
    }

    #[test]
    fn a_local_name_is_one_that_no_page_can_resolve() {
        for (host, expected) in [
            ("localhost", true),
            ("A.LocalHost", true),
            ("127.0.0.1", true),
            ("[::1]", true),
            ("192.0.2.7", true),
            ("localhost.evil.example", false),
            ("evil-localhost", false),
            ("1.evil.example", false),
        ] {
            assert_eq!(is_local_name(host), expected, "{host}");
        }
    }
}

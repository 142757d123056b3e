//! Which web pages may call the server from a browser.
//!
//! A browser sends the requests of a page to any address. CORS decides whether the page of another
//! origin may read the answer, and whether it may send anything but a form. Nothing is allowed
//! unless it is configured. A server that listens on this machine alone also checks the host that
//! a request names: otherwise a page could point a name of its own at 127.0.0.1, and would then be
//! of the same origin (DNS rebinding).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use http::uri::Authority;
use http::{HeaderValue, Method as Verb, Request, Response, StatusCode, Uri};

use super::body::WebBody;
use super::host;

/// The status and the sentence of a request that is refused.
pub type Refused = (StatusCode, &'static str);

const FOREIGN: &str = "this machine alone can reach the server here, but the request names another \
                       host; use localhost, or configure allowed_origins";

/// The hosts that are those of this server, beside those of the allowed origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Every host: other machines can reach the server too.
    Any,
    /// Addresses, and `localhost`.
    Local,
    /// The same, and names without a dot, as services and containers have: no public DNS has them,
    /// so no page can give them an address.
    Short,
}

/// The origins of web pages that may call, and the hosts that a request may name.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    allowed: Vec<String>,
    is_local: bool,
}

impl Origins {
    /// Allows these origins: `https://status.example.com`. `is_local`: the server listens on this
    /// machine alone.
    ///
    /// # Errors
    /// The first text that no browser sends as an origin.
    pub fn new(allowed: Vec<String>, is_local: bool) -> Result<Origins, String> {
        match allowed.iter().find(|text| !is_origin(text)) {
            Some(text) => Err(text.clone()),
            None => Ok(Origins { allowed, is_local }),
        }
    }

    /// Returns the origin of a page that may read the answer.
    ///
    /// # Errors
    /// The status and a sentence about a request that does not name this server.
    pub fn check<T>(&self, request: &Request<T>) -> Result<Option<HeaderValue>, Refused> {
        self.check_host(request, if self.is_local { Hosts::Local } else { Hosts::Any })?;
        let origin = request.headers().get(ORIGIN);
        let is_allowed =
            |origin: &&HeaderValue| self.is_allowed(origin.to_str().unwrap_or_default());
        Ok(origin.filter(is_allowed).cloned())
    }

    /// Checks the host that a request names.
    ///
    /// # Errors
    /// The status and a sentence about a request that does not name this server.
    pub fn check_host<T>(&self, request: &Request<T>, own: Hosts) -> Result<(), Refused> {
        let host = host::named(request).map_err(|text| (StatusCode::BAD_REQUEST, text))?;
        // A request of HTTP/1.0 may name no host; no browser sends it.
        let Some(host) = host else { return Ok(()) };
        let is_own = match own {
            Hosts::Any => true,
            Hosts::Local => host::is_local_name(host) || self.has_host(host),
            Hosts::Short => !host.contains('.') || host::is_local_name(host) || self.has_host(host),
        };
        match is_own {
            true => Ok(()),
            false => Err((StatusCode::MISDIRECTED_REQUEST, FOREIGN)),
        }
    }

    /// Returns whether a host is that of an allowed origin.
    fn has_host(&self, host: &str) -> bool {
        let is_host = |name: &str| name.eq_ignore_ascii_case(host);
        let of = |origin: &String| {
            origin.parse::<Uri>().is_ok_and(|uri| uri.host().is_some_and(is_host))
        };
        self.allowed.iter().any(of)
    }

    /// Returns whether an origin is configured.
    pub fn is_allowed(&self, origin: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed == origin)
    }

    /// Returns the answer to a browser that asks before it sends the request of a page.
    pub fn preflight<T, B>(
        &self,
        request: &Request<T>,
        origin: Option<&HeaderValue>,
    ) -> Option<Response<WebBody<B>>> {
        let asks = request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if request.method() != Verb::OPTIONS || !asks || origin.is_none() {
            return None;
        }
        let mut response = Response::new(WebBody::whole(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        allow(&mut response, origin);
        let headers = response.headers_mut();
        for (name, value) in [
            (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST"),
            // The star does not include this one.
            (ACCESS_CONTROL_ALLOW_HEADERS, "*, authorization"),
            (ACCESS_CONTROL_MAX_AGE, "7200"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Some(response)
    }
}

/// Returns whether a text is a scheme, a host and maybe a port, and nothing more.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_lower = text.bytes().all(|byte| !byte.is_ascii_uppercase());
    let host = rest.and_then(|rest| rest.parse::<Authority>().ok());
    is_lower && host.is_some_and(|authority| !authority.as_str().contains('@'))
}

/// Lets the page of this origin read an answer.
pub fn allow<B>(response: &mut Response<B>, origin: Option<&HeaderValue>) {
    let Some(origin) = origin else { return };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    headers.append(VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use http::header::HOST;

    use super::*;

    const PAGE: &str = "https://status.example.com";

    fn check(origins: &Origins, host: &str, origin: &str) -> Result<bool, Refused> {
        let request = Request::get("/").header(HOST, host).header(ORIGIN, origin).body(()).unwrap();
        origins.check(&request).map(|origin| origin.is_some())
    }

    #[test]
    fn a_page_is_allowed_by_its_whole_origin() {
        let origins = Origins::new(vec![PAGE.into()], false).unwrap();
        assert_eq!(check(&origins, "a:1", PAGE), Ok(true));
        for other in ["https://example.com", "http://status.example.com", "null"] {
            assert_eq!(check(&origins, "a:1", other), Ok(false), "{other}");
        }
        assert_eq!(check(&Origins::default(), "a:1", PAGE), Ok(false));
    }

    #[test]
    fn an_origin_has_no_path_and_no_star() {
        for text in [PAGE, "http://localhost:3000", "http://[::1]:80"] {
            assert!(Origins::new(vec![text.into()], false).is_ok(), "{text}");
        }
        for text in ["*", "status.example.com", "https://a/", "https://A", "https://u@a", "null"] {
            assert_eq!(Origins::new(vec![text.into()], false).unwrap_err(), text);
        }
    }

    #[test]
    fn a_local_server_is_asked_by_a_local_name() {
        let local = Origins::new(vec![PAGE.into()], true).unwrap();
        for host in
            ["localhost", "LOCALHOST:50051", "a.localhost", "127.0.0.1:1", "[::1]:1", "10.0.0.1"]
        {
            assert_eq!(check(&local, host, "null"), Ok(false), "{host}");
        }
        assert_eq!(check(&local, "status.example.com:443", PAGE), Ok(true));
        for host in ["evil.example:50051", "localhost.evil.example", "1.evil.example"] {
            let (status, _) = check(&local, host, "null").unwrap_err();
            assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{host}");
        }
        let (status, _) = check(&local, "evil.example#.localhost", "null").unwrap_err();
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
}

//! Whether the page of a request is that of this server.
//!
//! A browser says so itself in `Sec-Fetch-Site`, over TLS and for this machine. Otherwise `Origin`
//! names the page; it must be the host that the request was sent to, or an allowed origin.

use http::Request;
use http::header::{HOST, ORIGIN};

use crate::service::web::origin::Origins;

const SITE: &str = "sec-fetch-site";

/// Returns whether a form was sent by a page of this server.
pub fn is_own<T>(request: &Request<T>, origins: &Origins, is_tls: bool) -> bool {
    match header(request, SITE) {
        Some(site) => site == "same-origin",
        None => header(request, ORIGIN).is_some_and(|_| is_own_origin(request, origins, is_tls)),
    }
}

/// Returns whether another page causes a request to read something. The address bar is no page.
pub fn is_foreign<T>(request: &Request<T>, origins: &Origins, is_tls: bool) -> bool {
    match header(request, SITE) {
        Some(site) => !["same-origin", "none"].contains(&site),
        None => request.headers().contains_key(ORIGIN) && !is_own_origin(request, origins, is_tls),
    }
}

/// Returns whether the page that sent a form came over TLS, at this server or at a proxy.
pub fn is_secure<T>(request: &Request<T>, is_tls: bool) -> bool {
    is_tls || header(request, ORIGIN).is_some_and(|origin| origin.starts_with("https://"))
}

fn is_own_origin<T>(request: &Request<T>, origins: &Origins, is_tls: bool) -> bool {
    let Some(origin) = header(request, ORIGIN) else { return false };
    let named = request.uri().authority().map(|authority| authority.as_str());
    let Some(host) = named.or_else(|| header(request, HOST)) else { return false };
    let is_host = |page: &str| page.eq_ignore_ascii_case(host);
    origin.strip_prefix("https://").is_some_and(is_host)
        || (!is_tls && origin.strip_prefix("http://").is_some_and(is_host))
        || origins.is_allowed(origin)
}

/// Returns a header that is there once.
fn header<T>(request: &Request<T>, name: impl http::header::AsHeaderName) -> Option<&str> {
    let mut all = request.headers().get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Some(one.to_str().unwrap_or("?")),
        (Some(_), Some(_)) => Some("?"),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_of_the_browser_or_the_origin_determine_the_page_of_a_request() {
        let origins = Origins::new(vec!["https://status.example.com".into()], false).unwrap();
        // Sec-Fetch-Site, Origin, TLS; own, foreign.
        let cases = [
            ("same-origin", "", false, true, false),
            ("same-origin", "null", true, true, false),
            ("none", "", false, false, false),
            ("same-site", "http://a:1", false, false, true),
            ("cross-site", "http://a:1", false, false, true),
            ("", "", false, false, false),
            ("", "http://a:1", false, true, false),
            ("", "HTTP://a:1", false, false, true),
            ("", "https://a:1", false, true, false),
            ("", "https://a:1", true, true, false),
            ("", "http://a:1", true, false, true),
            ("", "http://a:2", false, false, true),
            ("", "http://evil.example", false, false, true),
            ("", "null", false, false, true),
            ("", "https://status.example.com", true, true, false),
        ];
        for (site, origin, is_tls, own, foreign) in cases {
            let mut request = Request::post("/session").header(HOST, "a:1");
            for (name, value) in [(SITE, site), ("origin", origin)] {
                if !value.is_empty() {
                    request = request.header(name, value);
                }
            }
            let request = request.body(()).unwrap();
            let found =
                (is_own(&request, &origins, is_tls), is_foreign(&request, &origins, is_tls));
            assert_eq!(found, (own, foreign), "{site:?} {origin:?} {is_tls}");
        }
    }
}

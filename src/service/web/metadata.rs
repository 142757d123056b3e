//! Which headers of a request are metadata of its call, and which metadata become headers of the
//! answer.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers of HTTP and of the protocols, which mean nothing to a method.
const OF_THE_PROTOCOL: [&str; 20] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "last-event-id",
    "origin",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
];

/// Returns whether a header belongs to a call, and not to the way in which the call is sent.
fn is_metadata(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_reserved = name.starts_with("connect-") || name.starts_with("grpc-");
    !is_reserved && !OF_THE_PROTOCOL.contains(&name)
}

/// Returns the headers of the gRPC request.
pub fn of_request(headers: &HeaderMap) -> HeaderMap {
    let mut kept = only_metadata(headers);
    kept.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    kept.insert(http::header::TE, HeaderValue::from_static("trailers"));
    kept
}

/// Returns the metadata among headers or trailers.
pub fn only_metadata(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.len() + 3);
    for (name, value) in headers.iter().filter(|(name, _)| is_metadata(name)) {
        kept.append(name.clone(), value.clone());
    }
    kept
}

/// Adds trailers to the headers of an answer, each as `trailer-NAME`.
pub fn add_trailers(headers: &mut HeaderMap, trailers: &HeaderMap) {
    for (name, value) in trailers.iter().filter(|(name, _)| is_metadata(name)) {
        if let Ok(name) = HeaderName::try_from(format!("trailer-{name}")) {
            headers.append(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metadata_pass() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "application/json"),
            ("connect-timeout-ms", "5"),
            ("grpc-timeout", "5S"),
            ("authorization", "Bearer x"),
            ("x-own", "1"),
            ("x-own", "2"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let sent = of_request(&headers);
        assert_eq!(sent.get_all("x-own").iter().count(), 2);
        assert_eq!(sent["authorization"], "Bearer x");
        assert_eq!(sent["content-type"], "application/grpc");
        assert!(!sent.contains_key("connect-timeout-ms") && !sent.contains_key("grpc-timeout"));
        let mut answer = HeaderMap::new();
        add_trailers(&mut answer, &headers);
        assert_eq!(answer["trailer-x-own"], "1");
        assert_eq!(answer.len(), 3);
    }
}

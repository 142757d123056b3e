//! The cookie of a session.

use http::header::{COOKIE, HeaderValue};
use http::{HeaderMap, Request};

use super::LIFE;

/// The cookie of a connection without TLS.
const PLAIN: &str = "bellwether";
/// The cookie of a page over TLS. Browsers take this prefix only from the host itself, over TLS.
const SECURE: &str = "__Host-bellwether";

/// Returns what the cookies of a request hold. Over TLS a cookie that was set without TLS does not
/// count. Without TLS a proxy may have it, so both count.
pub fn keys<T>(request: &Request<T>, is_tls: bool) -> impl Iterator<Item = &str> {
    named(request.headers(), SECURE)
        .chain((!is_tls).then(|| named(request.headers(), PLAIN)).into_iter().flatten())
}

fn named<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';'));
    let pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
}

/// Returns the header that sets the cookie. No script reads it, and no other site causes it to be
/// sent.
pub fn set(key: &str, is_secure: bool) -> Option<HeaderValue> {
    let (name, flag) = if is_secure { (SECURE, "; Secure") } else { (PLAIN, "") };
    let life = if key.is_empty() { 0 } else { LIFE.as_secs() };
    let text = format!("{name}={key}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{flag}");
    HeaderValue::try_from(text).ok()
}

//! Standard Webhooks 1.0: a message in JSON, signed with each secret of a file by HMAC (`v1`).

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use serde::Serialize;

use crate::cli::command::notify::message::Message;
use crate::domain::time::Timestamp;

/// What the text of a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, by the specification.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: String,
    timestamp: String,
    data: &'a Message,
}

/// Returns the body of a message.
pub fn body(message: &Message, now: Timestamp) -> Bytes {
    let kind = format!("application.{}", message.kind);
    let body = Body { kind, timestamp: now.to_utc(), data: message };
    Bytes::from(serde_json::to_vec(&body).unwrap_or_default())
}

/// Returns the headers with id, time and signatures. `secrets` has a secret a line: two while one
/// replaces the other.
///
/// # Errors
/// A sentence if a line is no secret, or there is none. It never repeats the line.
pub fn headers(
    id: &str,
    body: &Bytes,
    now: Timestamp,
    secrets: &str,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let time = (now.millis() / 1000).to_string();
    let mut signed = format!("{id}.{time}.").into_bytes();
    signed.extend_from_slice(body);
    let mut signatures = Vec::new();
    for line in secrets.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let secret = line.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
        let secret = secret.filter(|secret| SECRET_BYTES.contains(&secret.len()));
        let Some(secret) = secret else {
            return Err("a line is no secret: whsec_ and 24 to 64 bytes in base64".to_string());
        };
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), &signed);
        signatures.push(format!("v1,{}", STANDARD.encode(tag)));
    }
    if signatures.is_empty() {
        return Err("there is no secret: write whsec_ and 24 to 64 bytes in base64".to_string());
    }
    let value = |text: &str| {
        HeaderValue::try_from(text).map_err(|_| "a header has a character too many".to_string())
    };
    Ok(vec![
        (HeaderName::from_static("webhook-id"), value(id)?),
        (HeaderName::from_static("webhook-timestamp"), value(&time)?),
        (HeaderName::from_static("webhook-signature"), value(&signatures.join(" "))?),
    ])
}

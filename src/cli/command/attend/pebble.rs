//! A notice of Pebble, as `pebble notify` sends it: one request of HTTP over the socket.

use std::path::Path;

use anyhow::Context as _;
use axum::body::{Body, Bytes};
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::UnixStream;

/// The domain of the keys of notices.
const DOMAIN: &str = "bellwether.dev";
/// An answer is a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends a notice with the key `bellwether.dev/EVENT` and all facts as its data.
///
/// # Errors
/// If Pebble cannot be reached, or refuses.
pub async fn notify(socket: &Path, facts: &[(&'static str, String)]) -> anyhow::Result<()> {
    let event = facts.iter().find(|(name, _)| *name == "event").map_or("", |(_, event)| event);
    let data = facts.iter().map(|(name, value)| (name.replace('_', "-"), json!(value)));
    let notice = json!({
        "action": "add",
        "type": "custom",
        "key": format!("{DOMAIN}/{event}"),
        "data": data.collect::<Map<String, Value>>(),
    });
    let answer = post(socket, notice.to_string()).await;
    let (code, body) = answer.with_context(|| format!("Pebble at {}", socket.display()))?;
    if code.is_success() {
        return Ok(());
    }
    let refusal: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reason = refusal["result"]["message"].as_str().unwrap_or("without a message");
    anyhow::bail!("Pebble refused the notice with {}: {reason}", code.as_u16())
}

async fn post(socket: &Path, notice: String) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::post("/v1/notices")
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(notice))?;
    let answer = async move {
        let answer = sender.send_request(request).await?;
        let code = answer.status();
        let body = axum::body::to_bytes(Body::new(answer.into_body()), ANSWER_BYTES_MAX).await?;
        Ok((code, body))
    };
    // The connection ends when `answer` drops the sender; its end does not change the answer.
    let (answer, _closed) = tokio::join!(answer, connection);
    answer
}

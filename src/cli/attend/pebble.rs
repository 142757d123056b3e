//! A notice of Pebble, as `pebble notify` sends it: one request of HTTP over the socket.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The domain of the keys of notices.
const DOMAIN: &str = "bellwether.dev";
/// An answer is a few hundred bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Sends a notice with the key `bellwether.dev/EVENT` and all facts as its data.
///
/// # Errors
/// If Pebble cannot be reached, or refuses.
pub async fn notify(socket: &Path, facts: &[(&'static str, String)]) -> anyhow::Result<()> {
    let event = facts.iter().find(|(name, _)| *name == "event").map_or("", |(_, event)| event);
    let data = facts.iter().map(|(name, value)| (name.replace('_', "-"), json!(value)));
    let body = json!({
        "action": "add",
        "type": "custom",
        "key": format!("{DOMAIN}/{event}"),
        "data": data.collect::<Map<String, Value>>(),
    });
    let answer = post(socket, &body.to_string()).await;
    let answer = answer.with_context(|| format!("Pebble at {}", socket.display()))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head.split(' ').nth(1).unwrap_or_default();
    if code.starts_with('2') {
        return Ok(());
    }
    let told: Value = body.find('{').map_or(Value::Null, |start| {
        serde_json::from_str(body[start..].trim_end_matches(['0', '\r', '\n'])).unwrap_or_default()
    });
    let told = told["result"]["message"].as_str().unwrap_or("without a message");
    anyhow::bail!("Pebble refused the notice with {code:?}: {told}")
}

async fn post(socket: &Path, body: &str) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket).await?;
    let request = format!(
        "POST /v1/notices HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

//! The metrics of a running server, read as Prometheus does: one `GET /metrics`.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use http::Uri;

use crate::security::get::Get;

/// The text at `/metrics` of the server with this `ops` address. The caller sets the deadline.
pub async fn metrics(ops: SocketAddr) -> anyhow::Result<String> {
    metrics_at(&format!("http://{ops}").parse()?, None, None).await
}

/// The text at `/metrics` of the server with this URL, by a certificate authority and a token.
pub async fn metrics_at(
    ops: &Uri,
    ca: Option<&Path>,
    token: Option<&str>,
) -> anyhow::Result<String> {
    let mut parts = ops.clone().into_parts();
    parts.path_and_query = Some("/metrics".parse()?);
    let url = Uri::from_parts(parts)?;
    let body = Get { url: &url, ca, token }.send().await.context("GET /metrics")?;
    Ok(String::from_utf8(body.into())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// What is read from a server that gives this answer and keeps the connection open.
    async fn read(answer: &'static str) -> anyhow::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ops = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4096];
            let length = stream.read(&mut asked).await.unwrap();
            assert!(asked[..length].starts_with(b"GET /metrics HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).await.unwrap();
            // Until the reader closes.
            stream.read_to_end(&mut Vec::new()).await.unwrap();
        });
        let read = metrics(ops).await;
        server.await.unwrap();
        read
    }

    #[tokio::test]
    async fn the_body_is_read_whole_and_alone() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\na 1\nb ",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
             2\r\na \r\n4\r\n1\nb \r\n0\r\n\r\n",
        ] {
            assert_eq!(read(answer).await.unwrap(), "a 1\nb ");
        }
    }

    #[tokio::test]
    async fn an_answer_without_metrics_is_an_error() {
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        let error = format!("{:#}", read(answer).await.unwrap_err());
        assert!(error.contains("404"), "{error}");
    }
}

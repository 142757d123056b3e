//! A client of plain HTTP, over HTTP/1.1 or HTTP/2 without TLS.

use std::net::SocketAddr;

use bellwether::service::web::WebBody;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tonic::body::Body;

use crate::server::{DEADLINE, Server};

pub const JSON: &str = "application/json";

/// The versions of HTTP, for a test that uses both.
pub const VERSIONS: [Version; 2] = [Version::Http1, Version::Http2];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Http1,
    Http2,
}

/// An answer, with its whole body.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the reason in the details of an error.
    pub fn reason(&self) -> String {
        let error = self.json();
        let details = error["details"].as_array().into_iter().flatten();
        let mut reasons = details.filter_map(|detail| detail["debug"]["reason"].as_str());
        reasons.next().unwrap_or_default().to_string()
    }
}

/// Sends a request on a connection of its own; returns the answer as its body arrives.
pub async fn open(
    server: SocketAddr,
    version: Version,
    mut request: Request<Body>,
) -> http::Response<Incoming> {
    if version == Version::Http1 {
        // The host is in the header alone, as clients send it.
        *request.uri_mut() = request.uri().path_and_query().unwrap().as_str().parse().unwrap();
    }
    let io = TokioIo::new(TcpStream::connect(server).await.unwrap());
    match version {
        Version::Http1 => {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        }
        Version::Http2 => {
            let executor = TokioExecutor::new();
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(executor, io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        }
    }
}

/// Returns a request to this server.
pub fn request(
    server: &Server,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(format!("{}{path}", server.url()));
    if headers.iter().all(|(name, _)| *name != "host") {
        request = request.header("host", server.grpc.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::new(WebBody::<Body>::whole(body.into()))).unwrap()
}

pub async fn read(response: http::Response<Incoming>) -> Answer {
    let (parts, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(frame) = next_frame(&mut body).await {
        bytes.extend_from_slice(&frame);
    }
    Answer { status: parts.status.as_u16(), headers: parts.headers, body: bytes.freeze() }
}

/// Returns the next bytes of a body.
pub async fn next_frame(body: &mut Incoming) -> Option<Bytes> {
    loop {
        let next = std::future::poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx));
        let frame = tokio::time::timeout(DEADLINE, next).await.expect("the body goes on")?;
        if let Ok(data) = frame.unwrap().into_data() {
            return Some(data);
        }
    }
}

pub async fn send(server: &Server, version: Version, request: Request<Body>) -> Answer {
    read(open(server.grpc, version, request).await).await
}

/// Calls a method by POST with JSON.
pub async fn post(server: &Server, version: Version, method: &str, body: &str) -> Answer {
    let headers = [("content-type", JSON)];
    let path = format!("/bellwether.v1.{method}");
    send(server, version, request(server, Method::POST, &path, &headers, body.to_string())).await
}

/// Gets a path.
pub async fn get(server: &Server, version: Version, path: &str) -> Answer {
    send(server, version, request(server, Method::GET, path, &[], "")).await
}

/// Reports a status of `web/0` of the application `web`.
pub async fn report(server: &Server, level: &str, message: &str) {
    let body = serde_json::json!({
        "application": "web",
        "unit": "web/0",
        "status": {"level": level, "message": message},
    });
    let answer =
        post(server, Version::Http1, "ReportService/ReportStatus", &body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK.as_u16(), "{answer:?}");
}

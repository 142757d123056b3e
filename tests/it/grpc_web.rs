//! gRPC-Web on the port of gRPC: frames of gRPC in an ordinary request, with the trailers at the
//! end of the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bellwether::proto::v1;
use bytes::{BufMut, Bytes, BytesMut};
use http::Method;
use prost::Message;

use crate::server::Server;
use crate::web::{Answer, VERSIONS, Version, report, request, send};

const GET_APPLICATION: &str = "/bellwether.v1.ApplicationService/GetApplication";

fn frame(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    bytes.put_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// Splits a body into its frames.
fn frames(mut body: Bytes) -> Vec<(u8, Bytes)> {
    let mut frames = Vec::new();
    while !body.is_empty() {
        let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
        let frame = body.split_to(5 + length);
        frames.push((frame[0], frame.slice(5..)));
    }
    frames
}

async fn call(server: &Server, version: Version, kind: &str, application: &str) -> Answer {
    let message = frame(&v1::GetApplicationRequest {
        application: application.into(),
        ..v1::GetApplicationRequest::default()
    });
    let body = match kind.contains("text") {
        true => Bytes::from(STANDARD.encode(message)),
        false => message,
    };
    let headers = [("content-type", kind), ("accept", kind), ("x-grpc-web", "1")];
    let request = request(server, Method::POST, GET_APPLICATION, &headers, body);
    send(server, version, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_binary_and_in_text_has_its_answer_and_its_trailers() {
    let server = Server::ephemeral();
    report(&server, "LEVEL_ACTIVE", "").await;
    for (version, kind) in VERSIONS.iter().flat_map(|version| {
        ["application/grpc-web+proto", "application/grpc-web-text+proto"]
            .map(|kind| (*version, kind))
    }) {
        let answer = call(&server, version, kind, "web").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, kind));
        let body = match kind.contains("text") {
            // Each frame is coded, and padded, by itself.
            true => answer.body.chunks(4).flat_map(|four| STANDARD.decode(four).unwrap()).collect(),
            false => answer.body,
        };
        let frames = frames(body);
        let read = v1::GetApplicationResponse::decode(frames[0].1.clone()).unwrap();
        assert_eq!(read.application.unwrap().name, "web");
        let (flags, trailers) = &frames[1];
        let trailers = String::from_utf8(trailers.to_vec()).unwrap();
        assert!(*flags == 0x80 && trailers.contains("grpc-status:0"), "{trailers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_that_of_grpc_and_another_origin_reads_nothing() {
    let server = Server::ephemeral();
    let answer = call(&server, Version::Http1, "application/grpc-web", "nothing").await;
    let status = match answer.header("grpc-status") {
        "" => {
            let frames = frames(answer.body.clone());
            String::from_utf8(frames.last().unwrap().1.to_vec()).unwrap()
        }
        code => format!("grpc-status:{code}"),
    };
    assert!(status.contains("grpc-status:5"), "{answer:?}");
    let headers = [("content-type", "application/grpc-web"), ("origin", "https://a.example")];
    let foreign = request(&server, Method::POST, GET_APPLICATION, &headers, "");
    let foreign = send(&server, Version::Http1, foreign).await;
    assert!(!foreign.headers.contains_key("access-control-allow-origin"), "{foreign:?}");
    let rebound = [("content-type", "application/grpc-web"), ("host", "evil.example")];
    let rebound = request(&server, Method::POST, GET_APPLICATION, &rebound, "");
    assert_eq!(send(&server, Version::Http1, rebound).await.status, 421);
}

//! Requests that are not gRPC messages get typed errors, and other clients are not affected.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bytes::Bytes;
use http_body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;
use tonic::body::Body;
use tonic_types::StatusExt;
use tower::ServiceExt;

use crate::ops::fetch;
use crate::server::{Server, eventually, mk_report, reason};

const REPORT: &str = "/bellwether.v1.ReportService/ReportStatus";
const CONNECT: &str = "/bellwether.v1.WorkerService/Connect";

/// A body of these bytes.
struct Raw(Option<Bytes>);

impl http_body::Body for Raw {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Returns a gRPC frame whose header announces `length` bytes.
fn frame(flag: u8, length: usize, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).unwrap().to_be_bytes();
    [&[flag][..], &length, message].concat()
}

/// Sends these bytes as the body of a call and returns the error.
async fn send(server: &Server, path: &str, body: Vec<u8>, encoding: Option<&str>) -> tonic::Status {
    let request = http::Request::post(format!("{}{path}", server.url()))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = match encoding {
        Some(encoding) => request.header("grpc-encoding", encoding),
        None => request,
    };
    let request = request.body(Body::new(Raw(Some(body.into())))).unwrap();
    let response = server.channel().await.oneshot(request).await.unwrap();
    if let Some(status) = tonic::Status::from_header_map(response.headers()) {
        return status;
    }
    let mut body = std::pin::pin!(response.into_body());
    loop {
        let frame =
            std::future::poll_fn(|context| http_body::Body::poll_frame(body.as_mut(), context));
        let frame = frame.await.expect("an error is in the trailers").unwrap();
        if let Ok(trailers) = frame.into_trailers() {
            return tonic::Status::from_header_map(&trailers).unwrap();
        }
    }
}

/// Method, body, encoding, and the expected code and reason.
type Case = (&'static str, Vec<u8>, Option<&'static str>, Code, &'static str);

#[tokio::test]
async fn a_malformed_request_is_an_error_of_the_client_with_a_reason() {
    let server = Server::ephemeral();
    let report = prost::Message::encode_to_vec(&mk_report("web", "web/0", Level::Active, ""));
    let one = frame(0, report.len(), &report);
    let two = [one.clone(), one.clone()].concat();
    let invalid = Code::InvalidArgument;
    let cases: [Case; 12] = [
        (REPORT, vec![], None, Code::Unimplemented, "WRONG_MESSAGE_COUNT"),
        (REPORT, frame(0, 4, &[255; 4]), None, invalid, "MALFORMED_REQUEST"),
        (REPORT, frame(0, 100, &[0; 9]), None, invalid, "MALFORMED_REQUEST"),
        (REPORT, frame(5, 4, &[0; 4]), None, invalid, "MALFORMED_REQUEST"),
        (REPORT, two, None, Code::Unimplemented, "WRONG_MESSAGE_COUNT"),
        (CONNECT, frame(0, 4, &[255; 4]), None, invalid, "MALFORMED_REQUEST"),
        (REPORT, frame(1, 4, &[0; 4]), None, Code::Internal, "UNANNOUNCED_COMPRESSION"),
        (REPORT, one.clone(), Some("gzip"), Code::Unimplemented, "UNSUPPORTED_ENCODING"),
        (REPORT, frame(0, 70_000, &[]), None, Code::ResourceExhausted, "REQUEST_TOO_LARGE"),
        (CONNECT, frame(0, 5 << 20, &[]), None, Code::ResourceExhausted, "REQUEST_TOO_LARGE"),
        ("/no.Such/Method", one.clone(), None, Code::Unimplemented, "UNKNOWN_METHOD"),
        (
            "/bellwether.v1.ReportService/Nothing",
            one.clone(),
            None,
            Code::Unimplemented,
            "UNKNOWN_METHOD",
        ),
    ];
    for (path, body, encoding, code, expected) in cases {
        let status = send(&server, path, body, encoding).await;
        assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{status:?}");
        assert!(!status.message().is_empty());
    }
    let listed = server.applications().await;
    let listed = { listed }.list_applications(v1::ListApplicationsRequest::default()).await;
    assert!(listed.unwrap().into_inner().applications.is_empty(), "nothing was reported");
    // The metrics do not count these requests as failures of the server.
    let (_, metrics) = fetch(server.ops, "/metrics");
    let blamed = metrics.lines().find(|line| line.contains("error_type="));
    assert_eq!(blamed, None);
}

/// Opens a call with a part of a message, and breaks the rules of HTTP/2: the server has to end the
/// connection, and the call cannot be read to its end.
async fn break_off(server: &Server, path: &str) {
    let h2 = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
    };
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // POST, http, the path, and the type of the content by its place in the static table.
    let headers =
        [&[0x83, 0x86, 0x04][..], &text(path), &[0x0f, 0x10], &text("application/grpc")].concat();
    let words = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        h2(4, 0, 0, &[]),
        h2(1, 4, 1, &headers),
        h2(0, 0, 1, &frame(0, 100, b"half")),
        h2(8, 0, 1, &[0; 4]),
    ];
    let mut stream = tokio::net::TcpStream::connect(server.grpc).await.unwrap();
    stream.write_all(&words.concat()).await.unwrap();
    let _ended = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn a_client_that_breaks_off_a_request_is_no_failure_of_the_server() {
    let server = Server::ephemeral();
    for path in [REPORT, CONNECT] {
        break_off(&server, path).await;
        let method = path.trim_start_matches('/');
        let metrics = eventually("the call has ended", async || {
            let (_, metrics) = fetch(server.ops, "/metrics");
            let is_over =
                |line: &str| line.contains(method) && line.contains("rpc_response_status_code");
            metrics.lines().any(is_over).then_some(metrics)
        })
        .await;
        let blamed = metrics.lines().find(|line| line.contains("error_type="));
        assert_eq!(blamed, None);
    }
}

#[tokio::test]
async fn an_error_is_never_larger_than_clients_take() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    let long = "x".repeat(20_000);
    let odd = "\u{1}ä\"".repeat(5_000);
    let mut errors = Vec::new();
    for text in [&long, &odd] {
        let mut labelled = mk_report("web", "web/0", Level::Active, "");
        labelled.status.as_mut().unwrap().labels.insert(text.clone(), String::new());
        errors.push(reports.report_status(labelled).await.unwrap_err());
        let report = v1::ReportErrorRequest {
            application: "web".into(),
            unit: "web/0".into(),
            error: Some(v1::ErrorReport {
                system: text.clone(),
                reason: text.clone(),
                ..Default::default()
            }),
            ..Default::default()
        };
        errors.push(reports.report_error(report).await.unwrap_err());
        let config = v1::ApplicationConfig {
            policy: Some(v1::Policy { name: text.clone(), ..Default::default() }),
            ..Default::default()
        };
        let configure = v1::ConfigureApplicationRequest {
            application: "web".into(),
            config: Some(config.clone()),
            ..Default::default()
        };
        errors.push(applications.configure_application(configure).await.unwrap_err());
        let configure = v1::ConfigureApplicationRequest {
            application: "web".into(),
            config: Some(config),
            update_mask: Some(prost_types::FieldMask { paths: vec![text.clone()] }),
            ..Default::default()
        };
        errors.push(applications.configure_application(configure).await.unwrap_err());
        let health = bellwether::proto::health::HealthCheckRequest { service: text.clone() };
        errors.push(server.health().await.check(health).await.unwrap_err());
        errors.push(reflect(&server, text).await);
    }
    let component = "c".repeat(100);
    let status = v1::StatusReport { component, ..Default::default() };
    let set = v1::ReplaceStatusesRequest {
        application: "web".into(),
        unit: "web/0".into(),
        statuses: vec![status; 25],
        ..Default::default()
    };
    let many = reports.replace_statuses(set).await.unwrap_err();
    assert!(many.message().ends_with(" more"), "{}", many.message());
    errors.push(many);
    for error in errors {
        let mut headers = http::HeaderMap::new();
        error.add_header(&mut headers).unwrap();
        let bytes: usize = headers.iter().map(|(k, v)| k.as_str().len() + v.len() + 32).sum();
        assert!(bytes <= 4096, "{bytes} bytes: {}", error.message());
        assert!(error.message().len() <= 1024);
        assert!(error.get_details_error_info().is_some(), "{error:?}");
    }
}

/// Returns the reflection error for an unknown symbol.
async fn reflect(server: &Server, symbol: &str) -> tonic::Status {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    let request = tonic_reflection::pb::v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol(symbol.into())),
    };
    let mut client = ServerReflectionClient::new(server.channel().await);
    let answer = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    answer.into_inner().message().await.unwrap_err()
}

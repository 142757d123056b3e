//! The same rights for every protocol of the port: Connect and gRPC-Web over HTTP/1.1, and the
//! health of an application as a status of HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use bellwether::proto::v1::Level;
use bellwether_client::Client;

use crate::identities::{TokenFile, bearer};
use crate::server::{Server, mk_report};

const ROLES: &str = r#"
[[grant]]
role = "worker"
to = ["token:web-0"]
namespace = "default"
application = "web"
unit = "web/0"
[[grant]]
role = "reader"
to = ["token:other"]
namespace = "other"
application = "*"
"#;

/// Sends a request of HTTP/1.1 with these headers. Returns the status code.
fn ask(server: &Server, head: &str, headers: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(server.grpc).unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n\
         {body}",
        server.grpc,
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_protocol_gives_no_more_rights() {
    let tokens = TokenFile::new();
    let [own, other] = ["web-0", "other"].map(|id| tokens.create(id, "1h"));
    let server = tokens.serve(ROLES);
    let client = Client::connect_with(&server.url(), bearer(&own)).await.unwrap();
    let report = client.request(mk_report("web", "web/0", Level::Active, "x"));
    client.reports().report_status(report).await.unwrap();

    let header = |path: &std::path::Path| {
        let token = std::fs::read_to_string(path).unwrap();
        format!("Authorization: Bearer {}\r\n", token.trim())
    };
    let (own, other) = (header(&own), header(&other));
    let twice = format!("{own}{own}");
    let wrong = "Authorization: Bearer bw_web-0_00\r\n";
    let callers = [("", 401), (wrong, 401), (&*twice, 401), (&*other, 403), (&*own, 200)];
    let service = "/bellwether.v1.ApplicationService/GetApplication";
    for (authorization, expected) in callers {
        let json = format!("Content-Type: application/json\r\n{authorization}");
        let body = r#"{"application":"web"}"#;
        assert_eq!(ask(&server, &format!("POST {service}"), &json, body), expected, "{json}");
        let health = ask(&server, "GET /health/default/web", authorization, "");
        assert_eq!(health, expected, "{authorization}");
    }
    // Whether an application exists is no difference for a caller without the right.
    for name in ["web", "ghost"] {
        assert_eq!(ask(&server, &format!("GET /health/default/{name}"), &other, ""), 403);
    }
    assert_eq!(ask(&server, "GET /health", "", ""), 200, "the server itself, for any caller");
    let json = format!("Content-Type: application/json\r\n{own}");
    let body = r#"{"application":"web","unit":"web/1","status":{"level":"LEVEL_ACTIVE"}}"#;
    let method = "POST /bellwether.v1.ReportService/ReportStatus";
    assert_eq!(ask(&server, method, &json, body), 403);
    assert_eq!(ask(&server, method, &json, &body.replace("web/1", "web/0")), 200);
}

//! `json`: unary calls with JSON by the Connect protocol, beside the same calls by gRPC, with the
//! memory store. The ratio is the price of the translation: both are sent over HTTP/2 by the same
//! client.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use anyhow::Context;
use bellwether::proto::v1;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::service::web::WebBody;
use bytes::Bytes;
use http::{Method, Request, Version, header};
use http_body::Body as _;
use serde_json::json;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower::ServiceExt;

use crate::Load;
use crate::ingest;
use crate::load::{self, Measured, Work};
use crate::machine::Machine;
use crate::report::{Report, Row, Sent, Side};
use crate::rounds::{self, Contender, Progress};
use crate::server::{Place, Server};
use crate::streams::checked;

/// Flags of `json`.
#[derive(Debug, clap::Args)]
pub struct Json {
    /// Calls open at once on each connection
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: u32,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The least ratio of the rate with JSON to that of gRPC.
const TARGET: f64 = 0.5;
const REPORT: &str = "/bellwether.v1.ReportService/ReportStatus";
const READ: &str = "/bellwether.v1.ApplicationService/GetApplication";

/// The call of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Called {
    ReportByJson,
    ReportByGrpc,
    ReadByJson,
    ReadByGrpc,
}

/// Runs the command.
pub async fn run(args: Json) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let progress = Progress::new();
    progress.say("starting servers");
    // One for each way: both send the same reports, which change something once.
    let by_json = Server::start(&Place::Memory, &site).await?;
    let by_grpc = Server::start(&Place::Memory, &site).await?;
    for server in [&by_json, &by_grpc] {
        create_applications(server).await?;
    }
    drop(progress);
    let contender = |called: Called| {
        let server = if called.is_json() { &by_json } else { &by_grpc };
        let (plan, url) = (args.load.plan(args.in_flight), format!("http://{}", server.grpc));
        Contender::new(called.name(), move |first| {
            Box::pin(checked(load::run(Arc::new(called), url.clone(), plan.clone(), first)))
        })
    };
    let mut rows = Vec::new();
    for (work, ours, peer) in [
        ("Unary ReportStatus as JSON, beside gRPC", Called::ReportByJson, Called::ReportByGrpc),
        ("Unary GetApplication as JSON, beside gRPC", Called::ReadByJson, Called::ReadByGrpc),
    ] {
        let contenders = [contender(ours), contender(peer)];
        let measured: Vec<Vec<Measured>> = rounds::alternate(&contenders, args.load.rounds).await?;
        let sides = [ours, peer].into_iter().zip(&measured);
        let sides = sides.map(|(called, rounds)| Side::of(&called.name(), rounds.iter()));
        let mut sides = sides.collect::<anyhow::Result<Vec<Side>>>()?.into_iter();
        let ours = sides.next().context("our side was not measured")?;
        rows.push(Row::compare(work, ours, sides.next(), Some(TARGET)));
    }
    let sent = Sent {
        request_bytes: report(0).len(),
        keys: ingest::KEYS,
        applications: ingest::APPLICATIONS,
        connections: args.load.connections,
        in_flight: args.in_flight,
        rounds: args.load.rounds,
        seconds: args.load.seconds,
        warm_up_seconds: args.load.warm_up,
    };
    Report { machine, sent, rows }.print(args.load.json)
}

/// Creates the applications that the reads need, however few reports a short measurement makes.
async fn create_applications(server: &Server) -> anyhow::Result<()> {
    let channel = Endpoint::from_shared(format!("http://{}", server.grpc))?.connect().await?;
    let mut client = ReportServiceClient::new(channel);
    // Numbers that no measurement reaches: its reports must change their statuses.
    for sequence in (0..ingest::APPLICATIONS).map(|n| u64::MAX - n) {
        client.report_status(ingest::report(sequence)).await?;
    }
    Ok(())
}

impl Called {
    fn is_json(self) -> bool {
        matches!(self, Called::ReportByJson | Called::ReadByJson)
    }

    fn name(self) -> String {
        let way = if self.is_json() { "JSON" } else { "gRPC" };
        format!("bellwether {} {way}", bellwether::VERSION)
    }
}

impl Work for Called {
    async fn call(&self, channel: Channel, sequence: u64) -> Result<(), Status> {
        match self {
            Called::ReportByGrpc => {
                let mut client = ReportServiceClient::new(channel);
                let answer = client.report_status(ingest::report(sequence)).await?.into_inner();
                changed(answer.changed)
            }
            Called::ReportByJson => {
                let answer = post(channel, REPORT, report(sequence)).await?;
                changed(contains(&answer, br#""changed":true"#))
            }
            Called::ReadByGrpc => {
                let application = ingest::report(sequence).application;
                let request = v1::GetApplicationRequest {
                    application,
                    ..v1::GetApplicationRequest::default()
                };
                ApplicationServiceClient::new(channel).get_application(request).await?;
                Ok(())
            }
            Called::ReadByJson => {
                let application = ingest::report(sequence).application;
                let request = json!({ "application": application }).to_string();
                post(channel, READ, request).await?;
                Ok(())
            }
        }
    }
}

fn changed(is_changed: bool) -> Result<(), Status> {
    match is_changed {
        true => Ok(()),
        false => Err(Status::data_loss("a report that changes its status changed nothing")),
    }
}

/// Returns the report of `ingest` with this number as JSON.
fn report(sequence: u64) -> String {
    let v1::ReportStatusRequest { application, unit, status, .. } = ingest::report(sequence);
    let message = status.map(|status| status.message).unwrap_or_default();
    let status = json!({
        "kind": "STATUS_KIND_PUSH", "level": "LEVEL_ACTIVE", "message": message,
    });
    json!({ "application": application, "unit": unit, "status": status }).to_string()
}

/// Calls a method with JSON; returns the body of the answer.
async fn post(channel: Channel, path: &'static str, body: String) -> Result<Vec<u8>, Status> {
    let mut request = Request::new(Body::new(WebBody::<Body>::whole(body)));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = http::Uri::from_static(path);
    let kind = header::HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    let lost = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let response = channel.oneshot(request).await.map_err(lost)?;
    let status = response.status();
    let mut body = pin!(response.into_body());
    let mut whole = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        whole.extend_from_slice(&frame?.into_data().unwrap_or_else(|_| Bytes::new()));
    }
    match status.is_success() {
        true => Ok(whole),
        false => Err(Status::unknown(String::from_utf8_lossy(&whole))),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_send_the_same_report() {
        let text: serde_json::Value = serde_json::from_str(&report(7)).unwrap();
        let same = ingest::report(7);
        assert_eq!(text["application"], same.application);
        assert_eq!(text["status"]["message"], same.status.unwrap().message);
        assert!(contains(br#"{"changed":true}"#, b"true") && !contains(b"tru", b"true"));
    }
}

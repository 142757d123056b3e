//! Two servers over one Redis, each call with the deadline of an impatient client.

use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::app_data_service_client::AppDataServiceClient;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::leader_service_client::LeaderServiceClient;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt;

use super::client::{Answer, LEASE, Register};
use super::history::{Operation, Outcome};
use crate::server::mk_report;

/// The time after which a client gives up an attempt.
const PATIENCE: Duration = Duration::from_secs(1);
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// The key of the register in the data of an application.
const KEY: &str = "register";

/// Connections to both servers, made again when a server is back.
pub struct Ours(pub [Channel; 2]);

/// Returns a channel that connects when it is used.
pub fn lazy(url: &str) -> Channel {
    let endpoint = Endpoint::from_shared(url.to_string()).unwrap();
    endpoint.tcp_nodelay(true).connect_timeout(CONNECT_MAX).connect_lazy()
}

impl Register for Ours {
    const WAYS: usize = 2;

    async fn attempt(
        &self,
        way: usize,
        operation: &Operation,
        request_id: &str,
        freeze: Duration,
    ) -> Answer {
        tokio::time::sleep(freeze).await;
        let call = call(&self.0[way], operation, request_id.to_string());
        match tokio::time::timeout(PATIENCE, call).await {
            Ok(Ok(outcome)) => Answer::Known(outcome),
            Ok(Err(status)) => refusal(&status),
            Err(_) => Answer::Unknown,
        }
    }
}

async fn call(at: &Channel, asked: &Operation, id: String) -> Result<Outcome, Status> {
    match asked.operation {
        "claim" | "renew" | "release" | "leader" => lease(at, asked, id).await,
        "write" | "read" => data(at, asked, id).await,
        _ => status(at, asked, id).await,
    }
}

/// Returns a revision that is at least that of any answer before this call: the repeat of a report
/// is confirmed by the store. A read of at least this revision is linearizable.
async fn newest(at: &Channel, asked: &Operation) -> Result<u64, Status> {
    let report = mk_report(&asked.application, &asked.unit, v1::Level::Active, "here");
    let answer = ReportServiceClient::new(at.clone()).report_status(report).await?;
    Ok(answer.into_inner().revision)
}

async fn lease(at: &Channel, asked: &Operation, id: String) -> Result<Outcome, Status> {
    let mut client = LeaderServiceClient::new(at.clone());
    let (application, unit) = (asked.application.clone(), asked.unit.clone());
    let (namespace, lease_epoch) = (String::new(), asked.epoch);
    let ok = |lease: Option<v1::Lease>, revision| {
        let (epoch, holder) =
            lease.map_or_else(Default::default, |lease| (lease.lease_epoch, lease.unit));
        Outcome { kind: "ok", epoch, holder, revision, changed: true, ..Default::default() }
    };
    Ok(match asked.operation {
        "claim" => {
            let lease_duration = Some(LEASE.try_into().unwrap());
            let request = v1::ClaimLeadershipRequest {
                application,
                unit,
                lease_duration,
                request_id: id,
                ..Default::default()
            };
            let answer = client.claim_leadership(request).await?.into_inner();
            ok(answer.lease, answer.revision)
        }
        "renew" => {
            let request = v1::RenewLeadershipRequest { namespace, application, unit, lease_epoch };
            let answer = client.renew_leadership(request).await?.into_inner();
            ok(answer.lease, answer.revision)
        }
        "release" => {
            let request = v1::ReleaseLeadershipRequest {
                namespace,
                application,
                unit,
                lease_epoch,
                request_id: id,
            };
            let answer = client.release_leadership(request).await?.into_inner();
            Outcome { changed: answer.changed, ..ok(None, answer.revision) }
        }
        _ => {
            let min_revision = newest(at, asked).await?;
            let request = v1::GetLeaderRequest { application, min_revision, ..Default::default() };
            let answer = client.get_leader(request).await?.into_inner();
            let lease_epoch = answer.lease_epoch;
            Outcome { epoch: lease_epoch, ..ok(answer.lease, answer.revision) }
        }
    })
}

async fn data(at: &Channel, asked: &Operation, id: String) -> Result<Outcome, Status> {
    let mut client = AppDataServiceClient::new(at.clone());
    let application = asked.application.clone();
    if asked.operation == "read" {
        let min_revision = newest(at, asked).await?;
        let request = v1::GetAppDataRequest { application, min_revision, ..Default::default() };
        let data = client.get_app_data(request).await?.into_inner().app_data.unwrap_or_default();
        let value = data.data.get(KEY).map(|value| String::from_utf8(value.to_vec()).unwrap());
        return Ok(Outcome {
            kind: "ok",
            version: version(&data.etag),
            value: value.unwrap_or_default(),
            revision: data.revision,
            ..Default::default()
        });
    }
    let request = v1::UpdateAppDataRequest {
        application,
        unit: asked.unit.clone(),
        lease_epoch: asked.epoch,
        set: [(KEY.to_string(), asked.value.clone().into())].into(),
        etag: asked.expected.map(|version| format!("{version:x}")),
        request_id: id,
        ..Default::default()
    };
    let answer = client.update_app_data(request).await?.into_inner();
    Ok(Outcome {
        kind: "ok",
        version: version(&answer.etag),
        revision: answer.revision,
        changed: answer.changed,
        ..Default::default()
    })
}

async fn status(at: &Channel, asked: &Operation, id: String) -> Result<Outcome, Status> {
    let mut client = ApplicationServiceClient::new(at.clone());
    let application = asked.application.clone();
    if asked.operation == "read_status" {
        let min_revision = newest(at, asked).await?;
        let request = v1::GetApplicationRequest { application, min_revision, ..Default::default() };
        let found = client.get_application(request).await?.into_inner().application.unwrap();
        let status = found.status.unwrap_or_default();
        let value = if status.leader_set { status.message } else { String::new() };
        let revision = found.revision;
        return Ok(Outcome { kind: "ok", value, revision, ..Default::default() });
    }
    let request = v1::SetApplicationStatusRequest {
        application,
        unit: asked.unit.clone(),
        lease_epoch: asked.epoch,
        level: v1::Level::Maintenance.into(),
        message: asked.value.clone(),
        mode: v1::ApplicationStatusMode::Override.into(),
        request_id: id,
        ..Default::default()
    };
    let answer = client.set_application_status(request).await?.into_inner();
    let (revision, changed) = (answer.revision, answer.changed);
    Ok(Outcome { kind: "ok", revision, changed, ..Default::default() })
}

fn version(etag: &str) -> u64 {
    match etag {
        "" => 0,
        etag => u64::from_str_radix(etag, 16).unwrap(),
    }
}

fn refusal(status: &Status) -> Answer {
    let details = status.get_error_details();
    let Some(info) = details.error_info() else {
        // No server has accepted the connection, or a server has ended during the call.
        return match format!("{status:?}").contains("Connection refused") {
            true => Answer::NotSent,
            false => Answer::Unknown,
        };
    };
    let text = |key: &str| info.metadata.get(key).cloned().unwrap_or_default();
    let (kind, holder) = match &*info.reason {
        "NOT_LEADER" => ("not_leader", text("leader")),
        "LEASE_HELD" => ("held", text("holder")),
        "ETAG_MISMATCH" => {
            let version = version(&text("etag"));
            return Answer::Known(Outcome { kind: "mismatch", version, ..Default::default() });
        }
        "STORE_UNAVAILABLE" | "CONTENTION" | "REVISION_NOT_REACHED" => return Answer::Unknown,
        reason => panic!("{reason}: {status:?}"),
    };
    let epoch = text("lease_epoch").parse().unwrap();
    Answer::Known(Outcome { kind, epoch, holder, ..Default::default() })
}

//! What a server has before it is attacked.

use bellwether::proto::v1;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use futures_util::{StreamExt, TryStreamExt, stream};
use tonic::Status;
use tonic::transport::Channel;

use super::attack::Content;

/// Reports that are open at the same time.
const AT_ONCE: usize = 64;
/// The limit of a text.
const TEXT: usize = 4096;
/// Statuses of the large unit, each with three texts at their limit.
const STATUSES: usize = 100;

/// Reports the content.
pub async fn fill(content: Content, channel: Channel) -> Result<(), Status> {
    let reports: Vec<v1::ReportStatusRequest> = match content {
        Content::Nothing => Vec::new(),
        Content::Applications(count) => {
            (0..count).map(|n| report(&format!("app-{n}"), "0", "waits for a relation")).collect()
        }
        Content::LongMessages(count) => {
            let message = "<".repeat(TEXT);
            (0..count).map(|n| report(&format!("app-{n}"), "0", &message)).collect()
        }
        Content::LargeUnit => (0..STATUSES).map(large).collect(),
    };
    let calls = reports.into_iter().map(|report| {
        let mut client = ReportServiceClient::new(channel.clone());
        async move { client.report_status(report).await.map(drop) }
    });
    stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await
}

fn report(application: &str, key: &str, message: &str) -> v1::ReportStatusRequest {
    v1::ReportStatusRequest {
        application: application.into(),
        unit: format!("{application}/0"),
        status: Some(v1::StatusReport {
            key: key.into(),
            level: v1::Level::Blocked as i32,
            message: message.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn large(key: usize) -> v1::ReportStatusRequest {
    let mut report = report("large", &key.to_string(), &"m".repeat(TEXT));
    if let Some(status) = &mut report.status {
        (status.check, status.action) = ("c".repeat(TEXT), "a".repeat(TEXT));
    }
    report
}

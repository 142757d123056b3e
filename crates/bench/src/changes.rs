//! Reports that each change their application, and watchers that identify each report by its
//! message.

use std::future::ready;

use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::watch_applications_response::Event;
use bellwether::proto::v1::{Application, Level, ReportStatusRequest, StatusKind, StatusReport};
use bellwether::proto::v1::{WatchApplicationsRequest, WatchApplicationsResponse};
use futures_util::StreamExt;
use tonic::Status;
use tonic::transport::Channel;

use crate::load::Work;
use crate::open_loop::{Seen, WatchedWork};

/// The text before the number of a report in its message.
const MESSAGE: &str = "serving, request ";

/// Reports sent in turn to a number of applications with one unit each. Each application is in the
/// namespace of one watcher.
#[derive(Debug, Clone, Copy)]
pub struct Reports {
    /// Applications, over all watchers; report number n goes to application n modulo this.
    pub applications: u64,
    /// Watchers; `applications` is a multiple of it.
    pub watchers: u64,
    /// Whether each watcher sees all namespaces, not only its own.
    pub sees_all: bool,
}

impl Reports {
    /// Returns report number `sequence`, of the only unit of its application. All have the same
    /// length.
    pub fn report(&self, sequence: u64) -> ReportStatusRequest {
        let number = sequence % self.applications;
        let application = format!("app-{:03}", number / self.watchers);
        ReportStatusRequest {
            namespace: self.namespace(number % self.watchers),
            unit: format!("{application}/0"),
            application,
            status: Some(StatusReport {
                kind: StatusKind::Push.into(),
                level: Level::Active.into(),
                message: format!("{MESSAGE}{sequence:016x}"),
                ..StatusReport::default()
            }),
            ..ReportStatusRequest::default()
        }
    }

    fn namespace(&self, watcher: u64) -> String {
        match self.watchers {
            1 => String::new(),
            _ => format!("team-{watcher:03}"),
        }
    }
}

impl Work for Reports {
    async fn call(&self, channel: Channel, sequence: u64) -> Result<(), Status> {
        let mut client = ReportServiceClient::new(channel);
        let answer = client.report_status(self.report(sequence)).await?.into_inner();
        match answer.changed {
            true => Ok(()),
            false => Err(Status::data_loss("a report that changes its status changed nothing")),
        }
    }
}

impl WatchedWork for Reports {
    async fn watch(&self, channel: Channel, watcher: u64) -> Result<Seen, Status> {
        let mut client = ApplicationServiceClient::new(channel);
        let namespace = match (self.watchers, self.sees_all) {
            (2.., true) => "-".to_string(),
            _ => self.namespace(watcher),
        };
        let request = WatchApplicationsRequest { namespace, ..Default::default() };
        let mut answers = client.watch_applications(request).await?.into_inner();
        loop {
            let answer = answers.message().await?;
            let answer = answer.ok_or_else(|| Status::aborted("closed within the snapshot"))?;
            if let Some(Event::SnapshotComplete(_)) = answer.event {
                break;
            }
        }
        Ok(answers.filter_map(|answer| ready(seen(answer).transpose())).boxed())
    }
}

/// Returns the number of the report in an event, if the event has one.
fn seen(answer: Result<WatchApplicationsResponse, Status>) -> Result<Option<u64>, Status> {
    match answer?.event {
        Some(Event::Upserted(application)) => match sequence(&application) {
            Some(sequence) => Ok(Some(sequence)),
            None => Err(Status::data_loss(format!("not what was reported: {application:?}"))),
        },
        _ => Ok(None),
    }
}

fn sequence(application: &Application) -> Option<u64> {
    let message = &application.status.as_ref()?.message;
    u64::from_str_radix(message.strip_prefix(MESSAGE)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    use bellwether::proto::v1::AggregatedStatus;

    #[test]
    fn a_report_is_known_by_the_message_of_its_application() {
        let reports = Reports { applications: 256, watchers: 1, sees_all: true };
        for number in [0, 255, 256, u64::MAX] {
            let message = reports.report(number).status.unwrap().message;
            let status = Some(AggregatedStatus { message, ..Default::default() });
            let application = Application { status, ..Default::default() };
            assert_eq!(sequence(&application), Some(number));
        }
        assert_eq!(sequence(&Application::default()), None);
    }

    #[test]
    fn an_application_is_in_the_namespace_of_its_watcher() {
        let reports = Reports { applications: 30, watchers: 3, sees_all: false };
        let made: Vec<_> = (0..60).map(|number| reports.report(number)).collect();
        let names: HashSet<_> = made.iter().map(|r| (&r.namespace, &r.application)).collect();
        assert_eq!(names.len(), 30);
        for (report, number) in made.iter().zip(0..) {
            assert_eq!(report.namespace, reports.namespace(number % 3), "{number}");
        }
    }
}

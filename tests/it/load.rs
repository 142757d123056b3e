//! Writers that continue during faults of the store, and checks of the data that must exist at the
//! end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic_types::StatusExt;

use crate::server::{DEADLINE, Server, eventually, mk_report, reason};

/// The number of reports of each message, by application.
pub type History = BTreeMap<String, BTreeMap<String, usize>>;

/// The revision and level of each application.
pub type Listed = BTreeMap<(String, String), (u64, i32)>;

/// Writers, each with its own unit and a number of reports to make.
pub struct Load {
    acknowledged: Arc<AtomicU64>,
    /// The highest acknowledged revision of each application.
    revisions: Arc<Mutex<BTreeMap<String, u64>>>,
    writers: Vec<JoinHandle<()>>,
    expected: History,
}

impl Load {
    /// Starts the writers. Those of one application are spread over the servers.
    pub async fn start(
        servers: &[Server],
        applications: usize,
        writers: usize,
        reports: usize,
    ) -> Load {
        let acknowledged: Arc<AtomicU64> = Arc::default();
        let revisions: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
        let mut expected = History::new();
        let mut tasks = Vec::new();
        for w in 0..writers {
            let application = format!("app{}", w % applications);
            let messages = (0..reports).map(|n| (format!("{w}.{n}"), 1));
            expected.entry(application.clone()).or_default().extend(messages);
            let server = &servers[w / applications % servers.len()];
            let mut client = server.reports().await;
            let (acknowledged, revisions) = (acknowledged.clone(), revisions.clone());
            tasks.push(tokio::spawn(async move {
                for n in 0..reports {
                    // The history contains the changes of the level.
                    let level = if n % 2 == 0 { Level::Waiting } else { Level::Active };
                    let message = format!("{w}.{n}");
                    let report = mk_report(&application, &format!("web/{w}"), level, &message);
                    let revision = insist_on(&mut client, report).await.revision;
                    let mut revisions = revisions.lock().unwrap();
                    let known = revisions.entry(application.clone()).or_default();
                    *known = revision.max(*known);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        Load { acknowledged, revisions, writers: tasks, expected }
    }

    /// Waits until this many more reports are acknowledged.
    pub async fn go_on(&self, more: u64) {
        let enough = self.acknowledged.load(Ordering::Relaxed) + more;
        eventually("more acknowledged reports", async || {
            (enough <= self.acknowledged.load(Ordering::Relaxed)).then_some(())
        })
        .await;
    }

    /// Waits until every report is acknowledged and listed by all servers. Returns the expected
    /// history.
    pub async fn finish(self, servers: &[Server]) -> History {
        for writer in self.writers {
            writer.await.unwrap();
        }
        let revisions = self.revisions.lock().unwrap().clone();
        for server in servers {
            eventually("what is acknowledged is listed", async || {
                let listed = list(server).await;
                let is_there = |(name, revision): (&String, &u64)| {
                    let found = listed.get(&("default".to_string(), name.clone()));
                    found.is_some_and(|(found, _)| revision <= found)
                };
                revisions.iter().all(is_there).then_some(())
            })
            .await;
        }
        self.expected
    }
}

/// Repeats a report until it is acknowledged. Until then each refusal must be `STORE_UNAVAILABLE`
/// with a retry delay.
pub async fn insist_on(
    client: &mut ReportServiceClient<Channel>,
    report: v1::ReportStatusRequest,
) -> v1::ReportStatusResponse {
    let start = Instant::now();
    loop {
        let answer = tokio::time::timeout(DEADLINE, client.report_status(report.clone())).await;
        match answer.expect("every report is answered") {
            Ok(answer) => return answer.into_inner(),
            Err(refused) => check_refusal(&refused),
        }
        assert!(start.elapsed() < DEADLINE, "never acknowledged: {report:?}");
    }
}

/// Checks that a refusal names the unavailable store as the reason.
pub fn check_refusal(refused: &tonic::Status) {
    assert_eq!(reason(refused), "STORE_UNAVAILABLE", "{refused:?}");
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    assert!(refused.get_error_details().retry_info().is_some(), "{refused:?}");
}

/// Calls [`insist_on`] over a connection of its own.
pub async fn insist(server: &Server, report: v1::ReportStatusRequest) -> v1::ReportStatusResponse {
    insist_on(&mut server.reports().await, report).await
}

/// Returns the number of reports of each message, from the history of an application.
pub async fn reported(server: &Server, application: &str) -> BTreeMap<String, usize> {
    let request = v1::ListStatusEventsRequest {
        application: application.into(),
        page_size: 1000,
        ..Default::default()
    };
    let mut client = server.applications().await;
    let events =
        eventually("a history", async || match client.list_status_events(request.clone()).await {
            Ok(answer) => Some(answer.into_inner().events),
            Err(refused) => {
                assert_eq!(reason(&refused), "STORE_UNAVAILABLE", "{refused:?}");
                None
            }
        })
        .await;
    let mut counts = BTreeMap::new();
    for event in events.into_iter().filter(|event| event.cause == "Reported") {
        *counts.entry(event.message).or_default() += 1;
    }
    counts
}

/// Checks that every report appears once in the history of each server.
pub async fn check_history(servers: &[Server], expected: &History) {
    for server in servers {
        for (application, messages) in expected {
            let found = reported(server, application).await;
            assert_eq!(&found, messages, "{application}: none is lost, none is there twice");
        }
    }
}

/// Returns all applications that a server lists.
pub async fn list(server: &Server) -> Listed {
    let mut client = server.applications().await;
    let mut listed = Listed::new();
    let mut request = v1::ListApplicationsRequest { page_size: 1000, ..Default::default() };
    loop {
        let page = client.list_applications(request.clone()).await.unwrap().into_inner();
        listed.extend(page.applications.into_iter().map(|app| {
            ((app.namespace, app.name), (app.revision, app.status.unwrap_or_default().level))
        }));
        if page.next_page_token.is_empty() {
            return listed;
        }
        request.page_token = page.next_page_token;
    }
}

/// Waits until all servers list the same applications. Returns the list.
pub async fn agree(servers: &[Server]) -> Listed {
    eventually("all servers list the same", async || {
        let first = list(&servers[0]).await;
        for server in &servers[1..] {
            if list(server).await != first {
                return None;
            }
        }
        Some(first)
    })
    .await
}

/// Checks that the digest of every server matches the list.
pub async fn check_digests(servers: &[Server], listed: &Listed) {
    // The reads run together, because each waits for a bookmark.
    let reads = servers.iter().map(async |server| {
        let request = v1::WatchApplicationsRequest::default();
        let watch = server.applications().await.watch_applications(request).await;
        let mut copy = crate::watch::Copy::default();
        // It compares the digest with the copy.
        copy.read_to_bookmark(&mut watch.unwrap().into_inner()).await;
        assert_eq!(&copy.0, listed);
    });
    futures_util::future::join_all(reads).await;
}

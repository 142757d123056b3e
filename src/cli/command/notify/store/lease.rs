//! The lease of the process that notifies: of several processes one leads, and another takes over
//! when it is silent.

use std::time::Duration;

use bellwether_client::{Client, Error};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cli::context::say;
use crate::cli::render::one_line;
use crate::cli::span;
use crate::proto::v1::{
    ClaimLeadershipRequest, Level, RegisterUnitRequest, ReleaseLeadershipRequest,
    ReportStatusRequest, StatusReport,
};

/// Length of the lease: a killed process is replaced after this and one interval.
const LEASE: Duration = Duration::from_secs(6);
/// The time between two claims.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time that one claim may take.
const CALL: Duration = Duration::from_secs(2);
/// The lease ends for its holder before it ends at the server.
const MARGIN: Duration = Duration::from_millis(500);
/// A process that is silent for longer is passed over.
const TTL: Duration = Duration::from_secs(20);

/// Whether this process leads.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// Not known yet.
    New,
    /// Another process leads.
    StandsBy,
    /// It leads until then, unless it claims again before.
    Leads {
        /// The epoch of the lease, for every write.
        epoch: u64,
        /// When the lease ends.
        until: Instant,
    },
    /// It can never lead: why.
    Refused(String),
}

impl Standing {
    /// Returns the epoch, while the lease holds.
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Standing::Leads { epoch, until } if Instant::now() < *until => Some(*epoch),
            _ => None,
        }
    }
}

/// The unit that claims.
#[derive(Debug, Clone)]
pub struct Claimant {
    /// A connection to the server.
    pub client: Client,
    /// The namespace of the application.
    pub namespace: String,
    /// The application.
    pub application: String,
    /// The unit.
    pub unit: String,
}

impl Claimant {
    /// Claims until it is dropped, and says each time where it stands.
    pub async fn claim(self, standing: watch::Sender<Standing>) {
        let client = self.client.clone().with_deadline(CALL);
        let claimant = Claimant { client, ..self };
        let mut incarnation = None;
        let mut said = String::new();
        loop {
            let sent = Instant::now();
            let claimed = claimant.once(&mut incarnation, sent, &standing).await;
            if let Some(refused) = claimed.as_ref().err().and_then(refused) {
                standing.send_replace(Standing::Refused(refused));
                return;
            }
            // Each failure once, however often it is tried.
            let failure = claimed.err().map(|error| error.to_string()).unwrap_or_default();
            if failure != said && !failure.is_empty() {
                say(&format!("{} cannot claim the lease: {failure}", claimant.unit));
            }
            said = failure;
            tokio::time::sleep_until(sent + INTERVAL).await;
        }
    }

    async fn register(&self) -> Result<u64, Error> {
        let request = RegisterUnitRequest {
            namespace: self.namespace.clone(),
            application: self.application.clone(),
            unit: self.unit.clone(),
            ttl: Some(span::on_wire(TTL)),
            ..RegisterUnitRequest::default()
        };
        Ok(self.client.call(request).await?.incarnation)
    }

    /// Claims once, as an incarnation of its own.
    async fn once(
        &self,
        incarnation: &mut Option<u64>,
        sent: Instant,
        standing: &watch::Sender<Standing>,
    ) -> Result<(), Error> {
        let incarnation = match *incarnation {
            Some(incarnation) => incarnation,
            None => *incarnation.insert(self.register().await?),
        };
        let request = ClaimLeadershipRequest {
            namespace: self.namespace.clone(),
            application: self.application.clone(),
            unit: self.unit.clone(),
            incarnation: Some(incarnation),
            lease_duration: Some(span::on_wire(LEASE)),
            ..ClaimLeadershipRequest::default()
        };
        let before = std::mem::discriminant(&*standing.borrow());
        let now = match self.client.call(request).await {
            Ok(answer) => {
                let epoch = answer.lease.map_or(0, |lease| lease.lease_epoch);
                Standing::Leads { epoch, until: sent + LEASE - MARGIN }
            }
            Err(error) if error.reason() == Some("LEASE_HELD") => Standing::StandsBy,
            Err(error) => return Err(error),
        };
        let leads = matches!(now, Standing::Leads { .. });
        let is_new = before != std::mem::discriminant(&now);
        standing.send_replace(now);
        if is_new {
            self.report(incarnation, leads).await;
        }
        Ok(())
    }

    /// Shows in the status of the application which process leads.
    async fn report(&self, incarnation: u64, leads: bool) {
        let message = if leads { "leads" } else { "stands by" };
        say(&format!("{} {message}", self.unit));
        let status = StatusReport {
            level: Level::Active.into(),
            message: message.to_string(),
            ..StatusReport::default()
        };
        let request = ReportStatusRequest {
            namespace: self.namespace.clone(),
            application: self.application.clone(),
            unit: self.unit.clone(),
            incarnation: Some(incarnation),
            status: Some(status),
            ..ReportStatusRequest::default()
        };
        if let Err(error) = self.client.call(request).await {
            say(&format!("the status of {} is not reported: {error}", self.unit));
        }
    }

    /// Gives the lease up, so that another process leads at once.
    pub async fn release(&self, epoch: u64) {
        let request = ReleaseLeadershipRequest {
            namespace: self.namespace.clone(),
            application: self.application.clone(),
            unit: self.unit.clone(),
            lease_epoch: epoch,
            ..ReleaseLeadershipRequest::default()
        };
        let client = self.client.clone().with_deadline(CALL);
        if let Err(error) = client.call(request).await {
            say(&format!("the lease ends by itself: {error}"));
        }
    }
}

/// Returns why a unit can never lead, if this error says so.
fn refused(error: &Error) -> Option<String> {
    if error.reason() == Some("STALE_INCARNATION") {
        let text = "another process notifies as this unit: give each its own --unit";
        return Some(text.to_string());
    }
    (!error.is_passing()).then(|| one_line(&error.to_string()))
}

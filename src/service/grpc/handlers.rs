//! What the handlers of all services share: the parts that they use, and the way of a command: its
//! request is read, then applied.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use tonic::Request;

use crate::domain::classify::table;
use crate::domain::command::{self, Command, NewStatus};
use crate::domain::name::AppName;
use crate::domain::need::{Need, Needs};
use crate::domain::request::Outcome;
use crate::domain::status::report::advice;
use crate::proto::v1;
use crate::service::Parts;
use crate::service::call::Access;
use crate::service::code::ApiError;
use crate::service::convert::{self, Fields, Scoped};
use crate::service::grpc::blockers::Blockers;
use crate::service::grpc::read_path::Reads;
use crate::service::grpc::timelines::Timelines;
use crate::service::grpc::watch::Watches;
use crate::service::offload::Offload;

/// Handles the calls of every service. Each service is an `impl` in a file of its own.
pub(super) struct Handlers {
    pub(super) parts: Parts,
    pub(super) reads: Reads,
    pub(super) watches: Watches,
    pub(super) offload: Offload,
    pub(super) blockers: Blockers,
    /// Held while errors of several applications are grouped: one answer at a time.
    pub(super) grouping: tokio::sync::Mutex<()>,
    pub(super) timelines: Timelines,
    pub(super) has_reflection: bool,
    /// Sessions of one address, and of one principal.
    pub(super) share_max: (usize, usize),
}

/// The part of the server's description that comes from the configuration.
#[derive(Debug, Clone)]
pub struct About {
    /// Kind of the store.
    pub store_kind: v1::StoreKind,
    /// Limits in force, by the name that errors give.
    pub limits: BTreeMap<&'static str, u64>,
}

/// A command that was applied, in the terms of its answer.
pub(super) struct Applied {
    pub(super) app: AppName,
    pub(super) outcome: Outcome,
    /// Revision of the outcome.
    pub(super) revision: u64,
    /// Whether the command changed anything.
    pub(super) changed: bool,
    /// Number of statuses removed or cleared.
    pub(super) removed: i32,
    /// Advice about the texts of the reporter, and what was cut.
    pub(super) advice: Vec<String>,
}

impl Handlers {
    /// Handles a command: reads its request by `read` and applies it.
    pub(super) async fn handle<R: Scoped>(
        &self,
        request: Request<R>,
        read: impl FnOnce(&mut Fields, R) -> Option<command::Request>,
    ) -> Result<Applied, ApiError> {
        let access = Access::of(request.extensions());
        let (app, (request, cut)) = convert::read(request, |fields, wire| {
            let request = read(fields, wire)?;
            Some((request, fields.take_cuts()))
        })?;
        let mut advice = advice_of(&request.command, cut);
        advice.extend(self.unknown_needs(&request.command, &access));
        let outcome = self.apply(&app, request).await?;
        let Outcome { revision, changed, removed, late, .. } = outcome;
        advice.extend((0 < late).then(|| LATE.to_string()));
        Ok(Applied { app, outcome, revision: revision.0, changed, removed: removed as i32, advice })
    }

    /// Returns advice about needed applications that nobody has reported, as far as the caller may
    /// read them.
    fn unknown_needs(&self, command: &Command, access: &Access) -> Vec<String> {
        let mut needs = needs_of(command).filter_map(Need::app).peekable();
        if needs.peek().is_none() {
            return Vec::new();
        }
        let reader = access.reader();
        let is_known = |app: &&AppName| {
            let hub = &self.parts.hub;
            hub.get(app).is_some() || hub.tombstone(app).is_some() || !reader.may_read(app)
        };
        let unknown: BTreeSet<&AppName> = needs.filter(|app| !is_known(app)).collect();
        let advice = |app: &AppName| {
            format!("needs: {app} was never reported; check the spelling of its name")
        };
        unknown.into_iter().map(advice).collect()
    }

    /// Applies a request.
    pub(super) async fn apply(
        &self,
        app: &AppName,
        request: command::Request,
    ) -> Result<Outcome, ApiError> {
        self.parts.aggregator.apply(app, request).await.map_err(|e| ApiError::of(app, e))
    }
}

/// What the author of a worker reads about a late report.
const LATE: &str = "the report was dropped: its `observe_time` is before that of the stored one; \
                    report in the order of observation, or without `observe_time`";

/// Returns what the statuses or the error of a command need.
fn needs_of(command: &Command) -> impl Iterator<Item = &Need> {
    let of_error = match command {
        Command::ReportError { error, .. } => Some(&error.needs),
        _ => None,
    };
    let of_statuses = statuses_of(command).iter().map(|new| new.report.needs());
    of_statuses.chain(of_error).flat_map(Needs::iter)
}

fn statuses_of(command: &Command) -> &[NewStatus] {
    match command {
        Command::Report(_, _, new) => slice::from_ref(new),
        Command::Replace(_, _, set) | Command::ReplaceApplicationStatuses(_, _, set) => set,
        _ => &[],
    }
}

/// Returns each advice once, even if it applies to several statuses of a set, then what was cut.
fn advice_of(command: &Command, cut: Vec<String>) -> Vec<String> {
    let statuses = statuses_of(command);
    let mut all: Vec<String> = statuses.iter().flat_map(|new| advice(&new.report)).collect();
    all.sort();
    all.dedup();
    if let Command::ReportError { error, .. } = command {
        all.extend(table::advice(&error.evidence).map(|advice| format!("error.code: {advice}")));
    }
    all.extend(cut);
    all
}

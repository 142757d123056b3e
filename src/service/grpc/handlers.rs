//! What the handlers of all services share: the parts that they use, and the way of a command: its
//! request is read, then applied.

use std::collections::BTreeMap;
use std::slice;

use tonic::Request;

use crate::domain::classify::table;
use crate::domain::command::{self, Command};
use crate::domain::name::AppName;
use crate::domain::request::Outcome;
use crate::domain::status::report::advice;
use crate::proto::v1;
use crate::service::Parts;
use crate::service::code::ApiError;
use crate::service::convert::{self, Fields, Scoped};
use crate::service::grpc::read_path::Reads;
use crate::service::grpc::watch::Watches;
use crate::service::offload::Offload;

/// Handles the calls of every service. Each service is an `impl` in a file of its own.
pub(super) struct Handlers {
    pub(super) parts: Parts,
    pub(super) reads: Reads,
    pub(super) watches: Watches,
    pub(super) offload: Offload,
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
        let (app, (request, cut)) = convert::read(request, |fields, wire| {
            let request = read(fields, wire)?;
            Some((request, fields.take_cuts()))
        })?;
        let mut advice = advice_of(&request.command, cut);
        let outcome = self.apply(&app, request).await?;
        let Outcome { revision, changed, removed, late, .. } = outcome;
        advice.extend((0 < late).then(|| LATE.to_string()));
        Ok(Applied { app, outcome, revision: revision.0, changed, removed: removed as i32, advice })
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

/// Returns each advice once, even if it applies to several statuses of a set, then what was cut.
fn advice_of(command: &Command, cut: Vec<String>) -> Vec<String> {
    let statuses = match command {
        Command::Report(_, _, new) => slice::from_ref(new),
        Command::Replace(_, _, set) | Command::ReplaceApplicationStatuses(_, _, set) => set,
        _ => &[],
    };
    let mut all: Vec<String> = statuses.iter().flat_map(|new| advice(&new.report)).collect();
    all.sort();
    all.dedup();
    if let Command::ReportError { error, .. } = command {
        all.extend(table::advice(&error.evidence).map(|advice| format!("error.code: {advice}")));
    }
    all.extend(cut);
    all
}

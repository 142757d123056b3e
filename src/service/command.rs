//! The way of a command through every handler: its request is read, then applied.

use tonic::Request;

use crate::aggregator::Aggregator;
use crate::domain::command::{self, Command};
use crate::domain::name::AppName;
use crate::domain::request::Outcome;
use crate::domain::status::report::advice;
use crate::service::code::ApiError;
use crate::service::convert::{self, Fields, Scoped};
use crate::service::guard::Access;

/// Handles a command: reads its request by `read` and applies it. Returns the application and the
/// outcome.
pub(super) async fn handle<R: Scoped>(
    aggregator: &Aggregator,
    request: Request<R>,
    read: impl FnOnce(&mut Fields, R) -> Option<command::Request>,
) -> Result<(AppName, Outcome), ApiError> {
    let (access, wire) = Access::open(request);
    let (app, request) = convert::read(&access, wire, read)?;
    let outcome = apply(aggregator, &app, request).await?;
    Ok((app, outcome))
}

/// Like [`handle`], for a command with texts of a reporter. Returns the outcome and the advice.
pub(super) async fn handle_texts<R: Scoped>(
    aggregator: &Aggregator,
    request: Request<R>,
    read: impl FnOnce(&mut Fields, R) -> Option<command::Request>,
) -> Result<(Outcome, Vec<String>), ApiError> {
    let (app, request, advice) = read_texts(request, read)?;
    Ok((apply(aggregator, &app, request).await?, advice))
}

/// Reads a command with texts of a reporter. Returns the advice beside it, which says what was cut.
pub(super) fn read_texts<R: Scoped>(
    request: Request<R>,
    read: impl FnOnce(&mut Fields, R) -> Option<command::Request>,
) -> Result<(AppName, command::Request, Vec<String>), ApiError> {
    let (access, wire) = Access::open(request);
    let (app, (request, cut)) = convert::read(&access, wire, |fields, wire| {
        let request = read(fields, wire)?;
        Some((request, fields.take_cuts()))
    })?;
    let advice = advice_of(&request.command, cut);
    Ok((app, request, advice))
}

/// Returns each advice once, even if it applies to several statuses of a set, then what was cut.
fn advice_of(command: &Command, cut: Vec<String>) -> Vec<String> {
    let reports: Vec<_> = match command {
        Command::Report(_, _, new) => vec![&new.report],
        Command::Replace(_, _, set) | Command::ReplaceApplicationStatuses(_, _, set) => {
            set.iter().map(|new| &new.report).collect()
        }
        _ => Vec::new(),
    };
    let mut all: Vec<String> = reports.into_iter().flat_map(|report| advice(report)).collect();
    all.sort();
    all.dedup();
    all.extend(cut);
    all
}

/// Applies a request.
pub(super) async fn apply(
    aggregator: &Aggregator,
    app: &AppName,
    request: command::Request,
) -> Result<Outcome, ApiError> {
    aggregator.apply(app, request).await.map_err(|e| ApiError::of(app, e))
}

//! The way of a command through every handler: its request is read, then applied.

use tonic::Request;

use crate::aggregator::Aggregator;
use crate::domain::command;
use crate::domain::name::AppName;
use crate::domain::request::Outcome;
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

/// Reads a request whose long texts are cut if `cuts`. Returns what was cut beside it.
pub(super) fn read_cut<R: Scoped>(
    access: &Access,
    wire: R,
    cuts: bool,
    read: impl FnOnce(&mut Fields, R) -> Option<command::Request>,
) -> Result<(AppName, command::Request, Vec<String>), ApiError> {
    let (app, (request, cut)) = convert::read(access, wire, |fields, wire| {
        fields.cut_long_texts(cuts);
        let request = read(fields, wire)?;
        Some((request, fields.take_cuts()))
    })?;
    Ok((app, request, cut))
}

/// Applies a request.
pub(super) async fn apply(
    aggregator: &Aggregator,
    app: &AppName,
    request: command::Request,
) -> Result<Outcome, ApiError> {
    aggregator.apply(app, request).await.map_err(|e| ApiError::of(app, e))
}

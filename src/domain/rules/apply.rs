//! The write path: a command becomes part of a draft, as a whole or not at all.

use crate::domain::draft::Draft;
use crate::domain::model::command::{Command, Request};
use crate::domain::model::request::{Outcome, Remembered, RequestId};
use crate::domain::rules::begin_unit::{
    announce_stop, connect, depart, disconnect, end_sessions, reconnect, register,
};
use crate::domain::rules::callback::{add_callback, cancel_callback};
use crate::domain::rules::data::update_data;
use crate::domain::rules::fault::{report_error, resolve_error, resolve_hold};
use crate::domain::rules::leadership::{
    claim_leadership, lapse_leadership, release_leadership, renew_leadership, step_back,
    transfer_leadership,
};
use crate::domain::rules::mark::{remove_mark, set_mark};
use crate::domain::rules::operation::operate;
use crate::domain::rules::own_set::replace_application_statuses;
use crate::domain::rules::policy::configure;
use crate::domain::rules::rejected::Rejected;
use crate::domain::rules::remove_unit::remove_unit;
use crate::domain::rules::requested::request_callback;
use crate::domain::rules::set_status::{clear_application_status, set_application_status};
use crate::domain::rules::status::{clear, confirm, replace, report, report_all};

/// Applies a request to a draft. The outcome's revision is valid once the draft is committed. A
/// repeated request gets the first answer and is applied once; a different request with the same id
/// is rejected.
pub fn apply(draft: &mut Draft<'_>, request: &Request) -> Result<Outcome, Rejected> {
    if let Some(id) = &request.id
        && let Some(answer) = draft.requests.get(&id.id)
    {
        return Ok(answer.repeat(id)?);
    }
    let outcome = match &request.command {
        Command::Report(reporter, kind, new) => report(draft, reporter, *kind, new)?,
        Command::ReportAll(reporter, statuses) => report_all(draft, reporter, statuses)?,
        Command::Replace(reporter, component, set) => {
            replace(draft, reporter, component.as_ref(), set)?
        }
        Command::Confirm(reporter, component) => confirm(draft, reporter, component.as_ref())?,
        Command::AnnounceStop(reporter) => announce_stop(draft, reporter)?,
        Command::Clear { reporter, component, key, kind } => {
            clear(draft, reporter, component.as_ref(), key.as_ref(), *kind)?
        }
        Command::Configure(patch) => configure(draft, patch)?,
        Command::SetApplicationStatus(claim, new) => set_application_status(draft, claim, new)?,
        Command::ReplaceApplicationStatuses(claim, component, set) => {
            replace_application_statuses(draft, claim, component.as_ref(), set)?
        }
        Command::ClearApplicationStatus(claim) => clear_application_status(draft, claim)?,
        Command::RemoveUnit(name) => remove_unit(draft, name)?,
        Command::ClaimLeadership(reporter, duration) => {
            claim_leadership(draft, reporter, *duration)?
        }
        Command::RenewLeadership(claim) => renew_leadership(draft, claim)?,
        Command::ReleaseLeadership(claim) => release_leadership(draft, claim)?,
        Command::TransferLeadership(to) => transfer_leadership(draft, to)?,
        Command::LapseLeadership(claim, session) => lapse_leadership(draft, claim, *session),
        Command::StepBack(reporter) => step_back(draft, reporter)?,
        Command::UpdateData(claim, patch) => update_data(draft, claim, patch)?,
        Command::Connect(who, session) => connect(draft, who, *session)?,
        Command::Reconnect(who, session, since) => reconnect(draft, who, *session, *since)?,
        Command::Register(who, ttl) => register(draft, who, *ttl)?,
        Command::Disconnect { unit, session, ttl, silent } => {
            disconnect(draft, unit, *session, *ttl, *silent)
        }
        Command::Depart { reporter, ttl } => depart(draft, reporter, *ttl)?,
        Command::ReportError { reporter, component, target, error } => {
            report_error(draft, reporter, component, target, error)?
        }
        Command::ResolveError { reporter, component, target, generation } => {
            resolve_error(draft, reporter, component.as_ref(), target.as_deref(), generation)?
        }
        Command::ResolveHold { unit, component, resolution, why } => {
            resolve_hold(draft, unit, component, *resolution, why)?
        }
        Command::AddCallback { unit, topic, at, operation_id } => {
            add_callback(draft, unit, topic, *at, operation_id)?
        }
        Command::RequestCallback { reporter, topic, after, reason } => {
            request_callback(draft, reporter, topic, *after, reason)?
        }
        Command::CancelCallback { unit, topic } => cancel_callback(draft, unit, topic),
        Command::EndSessions { replica, ttl } => end_sessions(draft, *replica, *ttl),
        Command::Operate(command) => operate(draft, command)?,
        Command::SetMark(new) => set_mark(draft, new)?,
        Command::RemoveMark(id) => remove_mark(draft, id)?,
    };
    let outcome = Outcome { revision: draft.head.revision_so_far(), ..outcome };
    remember(draft, request, outcome);
    Ok(outcome)
}

/// Stores the outcome under the id of the request, if it has one.
fn remember(draft: &mut Draft<'_>, request: &Request, outcome: Outcome) {
    let Some(RequestId { id, fingerprint }) = request.id.clone() else { return };
    let unit = request.command.unit().cloned().unwrap_or_default();
    let is_configure = matches!(request.command, Command::Configure(_));
    let config = is_configure.then(|| draft.head.config.clone());
    let answer = Remembered { time: draft.now, outcome, fingerprint, unit, config };
    draft.requests.put(id, answer);
}

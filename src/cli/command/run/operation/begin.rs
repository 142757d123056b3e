//! The begin of an operation, or its acquisition after an interruption.

use std::time::Duration;

use bellwether_client::{Error, Refusal};
use jiff::Timestamp;

use crate::cli::command::run::keeper::boot_clock;
use crate::cli::command::run::operation::payload::Payload;
use crate::cli::context::Context;
use crate::cli::exit::{NotThisUnitError, NotYetError, UsageError};
use crate::cli::render::operation::state_word;
use crate::cli::render::time;
use crate::cli::span;
use crate::cli::target::UnitTarget;
use crate::proto::v1::{AcquireOperationRequest, BeginOperationRequest, Operation, OperationState};

/// The operation that is wanted.
pub struct Wanted<'a> {
    /// The unit that holds it.
    pub holder: &'a UnitTarget,
    /// Its name; `None`: from the program and the target.
    pub id: Option<&'a str>,
    /// The target.
    pub target: &'a str,
    /// Whether it is the work of the unit alone.
    pub is_own: bool,
    /// Whether repeated work gives the same result.
    pub is_deterministic: bool,
    /// The length of the lease.
    pub lease: Duration,
    /// What is recorded of the command.
    pub payload: &'a Payload,
}

/// The answer.
pub enum Begun {
    /// This process holds it. Its lease counts from the time of the call.
    Held {
        /// The operation.
        operation: Box<Operation>,
        /// When the call was sent.
        sent: Duration,
        /// Whether an earlier holder was interrupted.
        is_resumed: bool,
    },
    /// An earlier run has done it.
    Done(Box<Operation>),
}

/// Records the operation before its command exists, or acquires what an earlier run has left.
///
/// # Errors
/// If another unit, another run or another target comes first, and those of the calls.
pub async fn begin(wanted: &Wanted<'_>, context: &Context) -> anyhow::Result<Begun> {
    let bytes = wanted.payload.encode();
    let digest = crate::cli::command::run::operation::payload::digest_of(&bytes);
    let id = match wanted.id {
        Some(id) => id.to_string(),
        None => match choose(wanted, &digest, context).await? {
            Choice::Id(id) => id,
            Choice::Done(operation) => return Ok(Begun::Done(operation)),
        },
    };
    let sent = boot_clock::now();
    let request = BeginOperationRequest {
        operation_id: id.clone(),
        target_version: wanted.target.to_string(),
        payload: bytes.into(),
        deterministic: wanted.is_deterministic,
        lease_duration: Some(span::on_wire(wanted.lease)),
        for_unit: if wanted.is_own { wanted.holder.unit.clone() } else { String::new() },
        request_id: random_id()?,
        ..context.of_unit(wanted.holder)
    };
    let answer =
        context.call(request).await.map_err(|error| comes_first(error, wanted, context))?;
    let operation = answer.operation.unwrap_or_default();
    if answer.begun {
        return Ok(Begun::Held { operation: Box::new(operation), sent, is_resumed: false });
    }
    examine(&operation, wanted)?;
    if operation.state() == OperationState::Succeeded {
        return Ok(Begun::Done(Box::new(operation)));
    }
    let sent = boot_clock::now();
    let request = AcquireOperationRequest {
        operation_id: id,
        request_id: random_id()?,
        ..context.of_unit(wanted.holder)
    };
    let answer = context.call(request).await.map_err(|error| not_due(error, wanted))?;
    let operation = Box::new(answer.operation.unwrap_or_default());
    Ok(Begun::Held { operation, sent, is_resumed: true })
}

/// The name of an operation that has none.
enum Choice {
    Id(String),
    Done(Box<Operation>),
}

/// Names the operation by the program and the target: an open one is the one to resume. A finished
/// one is done if it is the same work, and no other came after it; else the name gets a number.
async fn choose(wanted: &Wanted<'_>, digest: &str, context: &Context) -> anyhow::Result<Choice> {
    let client = context.connect().await?;
    let listed = client.list_operations(&context.namespace(), &wanted.holder.application).await;
    let all = match listed {
        Err(error) if error.is_not_found() => Vec::new(),
        listed => listed?,
    };
    let unit = if wanted.is_own { wanted.holder.unit.as_str() } else { "" };
    let of_scope = Vec::from_iter(all.iter().filter(|operation| operation.unit == unit));
    Ok(choice(&name(&wanted.payload.program, wanted.target), wanted.target, digest, &of_scope))
}

fn choice(name: &str, target: &str, digest: &str, latest_first: &[&Operation]) -> Choice {
    let number = |operation: &Operation| -> Option<u32> {
        match operation.operation_id.strip_prefix(name)? {
            "" => Some(1),
            rest => rest.strip_prefix('.')?.parse().ok(),
        }
    };
    let same = latest_first.iter().filter(|operation| operation.target_version == target);
    let Some((newest, place)) = same.filter_map(|o| Some((o, number(o)?))).max_by_key(|(_, n)| *n)
    else {
        return Choice::Id(name.to_string());
    };
    let is_last = latest_first.first().is_some_and(|o| o.operation_id == newest.operation_id);
    match newest.state() {
        OperationState::Succeeded if is_last && newest.payload_digest == digest => {
            Choice::Done(Box::new((**newest).clone()))
        }
        OperationState::Succeeded | OperationState::Abandoned | OperationState::Superseded => {
            Choice::Id(format!("{name}.{}", place + 1))
        }
        _ => Choice::Id(newest.operation_id.clone()),
    }
}

/// Returns a name that the server takes.
fn name(program: &str, target: &str) -> String {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = format!("{program}-{target}")
        .chars()
        .map(|c| if is_taken(c) { c } else { '-' })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(200)
        .collect();
    if name.is_empty() { "run".to_string() } else { name }
}

/// Checks that a recorded operation is the same work, and not under way.
fn examine(operation: &Operation, wanted: &Wanted<'_>) -> anyhow::Result<()> {
    let id = &operation.operation_id;
    if operation.target_version != wanted.target {
        let text = format!(
            "operation {id} leads to {}: give another --id for the work to {}",
            operation.target_version, wanted.target
        );
        return Err(UsageError(text).into());
    }
    let recorded = Payload::decode(&operation.payload);
    let difference = match &recorded {
        Some(recorded) => wanted.payload.difference(recorded),
        None => Some("another program has begun it".to_string()),
    };
    if let Some(difference) = difference {
        let text = format!(
            "operation {id} to {} is {}, and {difference}: run the same work, or give it up by \
             `bellwether ops cancel {} {id}`",
            operation.target_version,
            state_word(operation.state),
            operation.application
        );
        return Err(NotYetError(text).into());
    }
    let is_held = matches!(operation.state(), OperationState::Running | OperationState::Verifying);
    if is_held && operation.holder == wanted.holder.unit {
        let end = time::from_wire(operation.lease_expire_time.as_ref());
        let at = end.map_or_else(String::new, |end| {
            format!(" after its lease ends, at {}", time::clock(end, Timestamp::now()))
        });
        let text = format!(
            "an earlier run of {} holds operation {id}: if it is gone, run again{at}",
            operation.holder
        );
        return Err(NotYetError(text).into());
    }
    Ok(())
}

/// Explains a begin that another operation prevents.
fn comes_first(error: Error, wanted: &Wanted<'_>, context: &Context) -> anyhow::Error {
    let Error::Refused(refusal) = &error else { return error.into() };
    let fact = |name: &str| fact(refusal, name);
    let application = &wanted.holder.application;
    let show = context.hint(&format!("ops show {application} {}", fact("operation_id")));
    match refusal.reason.as_str() {
        "RESUME_FIRST" => NotYetError(format!(
            "operation {} to {} is not done: run that one first; see `{show}`",
            fact("operation_id"),
            fact("target_version")
        ))
        .into(),
        "OPERATION_HELD" if fact("holder") == wanted.holder.unit => NotYetError(format!(
            "an earlier run of {} holds operation {}; see `{show}`",
            fact("holder"),
            fact("operation_id")
        ))
        .into(),
        "OPERATION_HELD" => NotThisUnitError(format!(
            "{} holds operation {}; see `{show}`",
            fact("holder"),
            fact("operation_id")
        ))
        .into(),
        _ => error.into(),
    }
}

/// Explains an acquisition that comes too early.
fn not_due(error: Error, wanted: &Wanted<'_>) -> anyhow::Error {
    match &error {
        Error::Refused(refusal)
            if refusal.reason == "OPERATION_STATE" && refusal.retry_after.is_some() =>
        {
            NotYetError(refusal.message.clone()).into()
        }
        Error::Refused(refusal)
            if refusal.reason == "OPERATION_HELD"
                && fact(refusal, "holder") == wanted.holder.unit =>
        {
            NotYetError(refusal.message.clone()).into()
        }
        _ => error.into(),
    }
}

fn fact(refusal: &Refusal, name: &str) -> String {
    refusal.metadata.get(name).cloned().unwrap_or_default()
}

/// Returns a name for a call, so that it is applied once.
fn random_id() -> anyhow::Result<String> {
    Ok(format!("run-{:032x}", u128::from_le_bytes(random()?)))
}

fn random() -> anyhow::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(id: &str, target: &str, state: OperationState, digest: &str) -> Operation {
        Operation {
            operation_id: id.into(),
            target_version: target.into(),
            state: state.into(),
            payload_digest: digest.into(),
            ..Operation::default()
        }
    }

    #[test]
    fn the_name_is_the_program_and_the_target() {
        for (program, target, expected) in [
            ("helm", "1.4", "helm-1.4"),
            ("migrate.sh", "2026-11-27 T1", "migrate.sh-2026-11-27-T1"),
            ("_x", "v2", "x-v2"),
            ("é", "?", "run"),
        ] {
            assert_eq!(name(program, target), expected);
        }
    }

    /// The chosen name, or `done`.
    fn chosen(latest_first: &[Operation]) -> String {
        let all: Vec<&Operation> = latest_first.iter().collect();
        match choice("helm-2", "2", "same", &all) {
            Choice::Id(id) => id,
            Choice::Done(_) => "done".to_string(),
        }
    }

    #[test]
    fn the_same_work_is_resumed_or_done_and_other_work_gets_a_number() {
        use OperationState::{Abandoned, Failed, Interrupted, Succeeded};
        let of = operation;
        for (list, expected) in [
            (vec![], "helm-2"),
            (vec![of("helm-1", "1", Succeeded, "other")], "helm-2"),
            (vec![of("helm-2", "2", Interrupted, "same")], "helm-2"),
            (vec![of("helm-2", "2", Failed, "other")], "helm-2"),
            (vec![of("helm-2", "2", Succeeded, "same")], "done"),
            (vec![of("helm-2", "2", Succeeded, "other")], "helm-2.2"),
            (vec![of("helm-2", "2", Abandoned, "same")], "helm-2.2"),
            // Something else came after it.
            (
                vec![of("helm-1", "1", Succeeded, ""), of("helm-2", "2", Succeeded, "same")],
                "helm-2.2",
            ),
            (
                vec![of("helm-2.2", "2", Succeeded, "same"), of("helm-2", "2", Succeeded, "")],
                "done",
            ),
            (
                vec![of("helm-2.9", "2", Interrupted, "same"), of("helm-2", "2", Succeeded, "")],
                "helm-2.9",
            ),
            (vec![of("helm-2.x", "2", Succeeded, "same")], "helm-2"),
        ] {
            assert_eq!(chosen(&list), expected, "{list:?}");
        }
    }
}

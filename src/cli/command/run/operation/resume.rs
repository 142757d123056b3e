//! `run --resume APP/UNIT`: takes up the open operations of a unit, as at the start of a host.

use std::time::Duration;

use crate::cli::command::run::operation::args::OperationArgs;
use crate::cli::command::run::operation::carry::run;
use crate::cli::command::run::operation::payload::{Payload, Stored};
use crate::cli::command::run::operation::work::CommandWork;
use crate::cli::context::{Context, say};
use crate::cli::exit::{Exit, NotYetError};
use crate::cli::span;
use crate::cli::target::{UnitTarget, shell_word};
use crate::proto::v1::{GetOperationRequest, Operation, OperationState};

/// The pause before an operation is tried again whose lease has not ended.
const PAUSE: Duration = Duration::from_secs(1);

/// Takes up what is open.
///
/// # Errors
/// Those of the calls, and of the first operation that is not done.
pub async fn resume(unit: &UnitTarget, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect().await?;
    let listed = client.list_operations(&context.namespace(), &unit.application).await?;
    let is_of_unit = |operation: &&Operation| is_open(operation) && concerns(operation, unit);
    let mut exit = Exit::Ok;
    for operation in listed.iter().filter(is_of_unit) {
        let request = GetOperationRequest {
            operation_id: operation.operation_id.clone(),
            ..context.of_application(&unit.application)
        };
        let operation = context.call(request).await?.operation.unwrap_or_default();
        let Some(payload) = Payload::decode(&operation.payload) else { continue };
        let ended = take_up(&operation, payload, unit, context).await?;
        if ended != Exit::Ok {
            exit = ended;
        }
    }
    Ok(exit)
}

fn is_open(operation: &Operation) -> bool {
    use OperationState::{Interrupted, Ready, RetryWait, Running, Verifying};
    [Interrupted, Ready, RetryWait, Running, Verifying].contains(&operation.state())
}

/// Whether the unit may hold the operation: its own, or one of the application that it held last.
fn concerns(operation: &Operation, unit: &UnitTarget) -> bool {
    match operation.unit.as_str() {
        "" => operation.holder.is_empty() || operation.holder == unit.unit,
        own => own == unit.unit,
    }
}

async fn take_up(
    operation: &Operation,
    payload: Payload,
    unit: &UnitTarget,
    context: &Context,
) -> anyhow::Result<Exit> {
    let (id, target) = (&operation.operation_id, &operation.target_version);
    let Some(stored) = payload.stored.clone() else {
        let line = format!(
            "run --operation {} --to {} --id {} -- {} ...",
            shell_word(&unit.unit),
            shell_word(target),
            shell_word(id),
            shell_word(&payload.program)
        );
        say(&format!("operation {id} to {target} is open; run: {}", context.hint(&line)));
        return Ok(Exit::Ok);
    };
    payload.restore()?;
    std::env::set_current_dir(&payload.folder)?;
    loop {
        let work =
            CommandWork::new(flags(operation, &payload, &stored, unit), stored.command.clone())?;
        // The variables are those of the first run.
        let work = CommandWork { payload: payload.clone(), ..work };
        match run(work, context).await {
            // Its lease ends soon: the run that held it ended with the host.
            Err(error) if error.is::<NotYetError>() => tokio::time::sleep(PAUSE).await,
            ended => return ended,
        }
    }
}

fn flags(
    operation: &Operation,
    payload: &Payload,
    stored: &Stored,
    unit: &UnitTarget,
) -> OperationArgs {
    OperationArgs {
        operation: Some(unit.unit.clone()),
        to: Some(operation.target_version.clone()),
        id: Some(operation.operation_id.clone()),
        own: !operation.unit.is_empty(),
        recipe: stored.recipe.clone(),
        deterministic: operation.deterministic,
        verify: stored.verify.clone(),
        lease: span::from_wire(operation.lease_duration).unwrap_or_default(),
        grace: Duration::from_millis(stored.grace),
        input: payload.inputs.iter().map(|input| input.path.clone()).collect(),
        store_command: false,
        variables: Vec::new(),
        result: None,
        resume: false,
    }
}

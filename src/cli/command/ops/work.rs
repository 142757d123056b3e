//! `bellwether ops begin`, `heartbeat`, `verify`, `complete` and `fail`: the work of a unit on an
//! operation, for hooks that end before the work does.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::cli::command::ops::new::NewArgs;
use crate::cli::command::ops::{act, show};
use crate::cli::context::{Context, print_plain, say};
use crate::cli::evidence::EvidenceArgs;
use crate::cli::exit::{NotThisUnitError, NotYetError, UsageError};
use crate::cli::hook::HookArgs;
use crate::cli::juju_hook::{self, juju_hook};
use crate::cli::render::operation::state_word;
use crate::cli::render::time;
use crate::cli::target::UnitTarget;
use crate::cli::{file, span};
use crate::proto::v1::{
    AcquireOperationRequest, BeginOperationRequest, CompleteOperationRequest, ErrorReport,
    FailOperationRequest, HeartbeatOperationRequest, Observed, Operation, OperationState,
    VerifyOperationRequest,
};

/// The operation, and the unit that works on it.
#[derive(clap::Args)]
pub struct WorkArgs {
    /// The operation
    #[arg(value_name = "OPERATION")]
    operation: String,
    /// The unit, as web/0 [default: the unit inside a Juju hook]
    #[arg(long, value_name = "APP/UNIT", add = crate::cli::completion::units())]
    unit: Option<String>,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
    #[command(flatten)]
    pub hook: HookArgs,
}

/// Begin an operation, or resume one that was interrupted; print begun, resumed, verify or done
#[derive(clap::Args)]
pub struct Begin {
    #[command(flatten)]
    pub work: WorkArgs,
    #[command(flatten)]
    new: NewArgs,
    /// Version before the work
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    from: String,
    /// The work of this unit alone, beside that of the application and of other units
    #[arg(long)]
    own: bool,
    /// How long the unit may be silent before the work counts as interrupted: 1s to 1h
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    lease: Option<Duration>,
}

/// Keep an operation, and save how far the work is
#[derive(clap::Args)]
pub struct Heartbeat {
    #[command(flatten)]
    pub work: WorkArgs,
    /// What the next worker needs to go on from here
    #[arg(long, value_name = "TEXT", conflicts_with = "checkpoint_file")]
    checkpoint: Option<String>,
    /// The same, from a file
    #[arg(long, value_name = "FILE")]
    checkpoint_file: Option<PathBuf>,
    /// One line for a person, as: 3 of 5 shards
    #[arg(long, value_name = "TEXT")]
    progress: Option<String>,
}

/// How far the previous holder came, as typed; the number is that of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ObservedWord {
    /// The work is done.
    Applied = Observed::Applied as isize,
    /// The work is not done, or only partly.
    NotApplied = Observed::NotApplied as isize,
    /// The state cannot be determined: a person must decide, unless repeated work is harmless.
    Undetermined = Observed::Undetermined as isize,
}

/// Report how far an interrupted operation came, after `begin` printed verify
#[derive(clap::Args)]
pub struct Verify {
    #[command(flatten)]
    pub work: WorkArgs,
    /// How far it came
    #[arg(long, value_enum)]
    observed: ObservedWord,
}

/// Report that an attempt has failed; the server decides whether and when another follows
#[derive(clap::Args)]
pub struct Fail {
    #[command(flatten)]
    pub work: WorkArgs,
    /// Part of the unit that met the error
    #[arg(long, default_value = "", hide_default_value = true)]
    component: String,
    #[command(flatten)]
    error: EvidenceArgs,
    /// The attempt has changed something
    #[arg(long)]
    touched: bool,
}

impl WorkArgs {
    fn target(&self) -> Result<UnitTarget, UsageError> {
        let hook = juju_hook();
        if self.unit.is_none() && hook.is_none() {
            let text = "no unit given outside of a Juju hook: write --unit APP/UNIT";
            return Err(UsageError(text.to_string()));
        }
        juju_hook::unit(self.unit.as_deref(), self.application.as_deref(), hook)
    }

    /// Returns the operation, and the unit that works on it.
    async fn find(&self, context: &Context) -> anyhow::Result<(UnitTarget, Operation)> {
        let target = self.target()?;
        let operation = show::get(&target.application, &self.operation, context).await?;
        Ok((target, operation))
    }

    /// Returns the operation, and the unit, which holds it.
    async fn held(&self, context: &Context) -> anyhow::Result<(UnitTarget, Operation)> {
        let (target, operation) = self.find(context).await?;
        check_held(&operation, &target, context)?;
        Ok((target, operation))
    }
}

/// Checks that the unit holds the operation, whose fence is then that of an earlier command.
fn check_held(
    operation: &Operation,
    target: &UnitTarget,
    context: &Context,
) -> Result<(), NotThisUnitError> {
    let Operation { operation_id: id, target_version: version, holder, .. } = operation;
    if *holder == target.unit {
        return Ok(());
    }
    if !holder.is_empty() {
        let text = format!("unit {holder} holds operation {id}, and {} does not", target.unit);
        return Err(NotThisUnitError(text));
    }
    let mut text = format!("operation {id} is {}: no unit holds it", state_word(operation.state));
    if !operation.next_step.is_empty() {
        let begin = context.hint(&format!("op begin {id} --to {version}"));
        text.push_str(&format!("; next: {}; `{begin}` takes it up", operation.next_step));
    }
    Err(NotThisUnitError(text))
}

/// Checks that no earlier command of the unit holds the operation: it may still run, and the server
/// cannot tell the two apart.
fn check_free(operation: &Operation, target: &UnitTarget) -> Result<(), NotYetError> {
    let is_held = [OperationState::Running, OperationState::Verifying].contains(&operation.state());
    if !is_held || operation.holder != target.unit {
        return Ok(());
    }
    let end = time::from_wire(operation.lease_expire_time.as_ref());
    Err(NotYetError(format!(
        "an earlier command of {} holds operation {}: go on with `op heartbeat` and `op complete`, \
         or begin again after its lease ends{}",
        target.unit,
        operation.operation_id,
        end.map_or_else(String::new, |end| format!(", at {}", time::clock(end, Timestamp::now()))),
    )))
}

/// Begins the operation, or acquires what an earlier hook has left.
pub async fn begin(args: Begin, context: &Context) -> anyhow::Result<()> {
    let target = args.work.target()?;
    let request = BeginOperationRequest {
        operation_id: args.work.operation.clone(),
        from_version: args.from,
        lease_duration: args.lease.map(span::on_wire),
        for_unit: if args.own { target.unit.clone() } else { String::new() },
        ..args.new.request(context.of_unit(&target))?
    };
    let answer = context.call(request).await?;
    let operation = answer.operation.unwrap_or_default();
    if answer.begun {
        return said("begun", &operation, context);
    }
    if operation.state() == OperationState::Succeeded {
        return said("done", &operation, context);
    }
    check_free(&operation, &target)?;
    let request =
        AcquireOperationRequest { operation_id: args.work.operation, ..context.of_unit(&target) };
    let operation = context.call(request).await?.operation.unwrap_or_default();
    match operation.state() {
        OperationState::Verifying => said("verify", &operation, context),
        _ => said("resumed", &operation, context),
    }
}

/// Prints the word for the script, and the state for a person.
fn said(word: &str, operation: &Operation, context: &Context) -> anyhow::Result<()> {
    context.print_message(operation, "Operation", || print_plain(&format!("{word}\n")))?;
    say(&act::sentence(operation));
    Ok(())
}

/// Renews the lease, and saves a checkpoint.
pub async fn heartbeat(args: Heartbeat, context: &Context) -> anyhow::Result<()> {
    let saved = match &args.checkpoint_file {
        Some(path) => Some(file::read(path)?.into()),
        None => args.checkpoint.map(Into::into),
    };
    let (target, operation) = args.work.held(context).await?;
    let request = HeartbeatOperationRequest {
        fence: operation.fence,
        operation_id: args.work.operation,
        checkpoint: saved,
        progress: args.progress,
        ..context.of_unit(&target)
    };
    context.change(request).await?;
    say(&format!("operation {} is kept", operation.operation_id));
    Ok(())
}

/// Reports how far the previous holder came.
pub async fn verify(args: Verify, context: &Context) -> anyhow::Result<()> {
    let (target, operation) = args.work.held(context).await?;
    let request = VerifyOperationRequest {
        fence: operation.fence,
        operation_id: args.work.operation,
        observed: args.observed as i32,
        ..context.of_unit(&target)
    };
    act::done(context.call(request).await?.operation, context)
}

/// Completes the operation.
pub async fn complete(args: WorkArgs, context: &Context) -> anyhow::Result<()> {
    let (target, operation) = args.find(context).await?;
    if operation.state() == OperationState::Succeeded {
        return act::done(Some(operation), context);
    }
    check_held(&operation, &target, context)?;
    let request = CompleteOperationRequest {
        fence: operation.fence,
        operation_id: args.operation,
        ..context.of_unit(&target)
    };
    act::done(context.call(request).await?.operation, context)
}

/// Reports the failure of an attempt.
pub async fn fail(args: Fail, context: &Context) -> anyhow::Result<()> {
    let (target, operation) = args.work.held(context).await?;
    let error = ErrorReport { component: args.component, ..args.error.report() };
    let request = FailOperationRequest {
        fence: operation.fence,
        operation_id: args.work.operation,
        error: Some(error.clone()),
        touched: args.touched,
        ..context.of_unit(&target)
    };
    let answer = match context.call(request.clone()).await {
        // An older server takes fewer texts as a reason.
        Err(refused) => match refused.without_reason(&error) {
            Some(plain) => {
                context.call(FailOperationRequest { error: Some(plain), ..request }).await?
            }
            None => return Err(refused.into()),
        },
        Ok(answer) => answer,
    };
    act::done(answer.operation, context)
}

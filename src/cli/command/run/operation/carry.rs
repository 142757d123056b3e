//! The way of an operation from its begin to the exit code of `run`.

use crate::cli::command::run::operation::begin::{Begun, Wanted};
use crate::cli::command::run::operation::result::{self, Outcome};
use crate::cli::command::run::operation::runner::Runner;
use crate::cli::command::run::operation::work::CommandWork;
use crate::cli::command::run::operation::{begin, signals};
use crate::cli::context::{Context, say};
use crate::cli::exit::Exit;
use crate::cli::render::time;

/// Carries out the work. The exit code is that of the command, if there was one.
///
/// # Errors
/// If the operation cannot be begun, or is not done without its command having run.
pub async fn run(work: CommandWork, context: &Context) -> anyhow::Result<Exit> {
    let outcome = carry_out(&work, context).await;
    result::write(work.result.as_deref(), &outcome)?;
    let outcome = outcome?;
    say(&outcome.sentence);
    Ok(outcome.exit)
}

async fn carry_out(work: &CommandWork, context: &Context) -> anyhow::Result<Outcome> {
    let wanted = Wanted {
        holder: &work.holder,
        id: work.id.as_deref(),
        target: &work.target,
        is_own: work.is_own,
        is_deterministic: work.is_deterministic,
        lease: work.lease.length,
        payload: &work.payload,
    };
    // From here on, signals are answered in order.
    let stop = signals::StopSignals::new()?;
    match begin::begin(&wanted, context).await? {
        Begun::Done(operation) => {
            let at = time::from_wire(operation.update_time.as_ref());
            let at = at.map_or_else(String::new, |at| format!(" at {}", time::full(at)));
            let id = &operation.operation_id;
            let sentence = format!("operation {id} to {} was done{at}", operation.target_version);
            Ok(Outcome::without_command(Exit::Ok, &operation, sentence))
        }
        Begun::Held { operation, sent, is_resumed } => {
            let client = context.connect().await?.clone();
            let mut runner = Runner::new(work, client, *operation, sent, stop, context)?;
            runner.run(is_resumed).await
        }
    }
}

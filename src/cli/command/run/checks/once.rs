//! One run of a check: reported by a call, without a session.

use crate::cli::command::run::checks::definition::PluginCheck;
use crate::cli::command::run::checks::outcome::Outcome;
use crate::cli::command::run::process;
use crate::cli::context::{Context, say};
use crate::proto::v1::{ReportErrorRequest, ReportStatusRequest, ResolveErrorRequest};

/// Runs the plugin, and reports what it found.
///
/// # Errors
/// Those of the calls. What the plugin found is no error of this command.
pub async fn run(check: &PluginCheck, context: &Context) -> anyhow::Result<()> {
    let finished = process::run(&check.command, check.timeout).await;
    let outcome = Outcome::of(check, &finished);
    let line = format!("{} {}: {}", check.unit.unit, check.component, outcome.sentence());
    match outcome {
        Outcome::Known(status) => {
            let request =
                ReportStatusRequest { status: Some(*status), ..context.of_unit(&check.unit) };
            context.change(request).await?;
            let works = ResolveErrorRequest {
                component: check.component.clone(),
                ..context.of_unit(&check.unit)
            };
            context.call(works).await?;
        }
        Outcome::Failed(error) => {
            let request =
                ReportErrorRequest { error: Some(*error), ..context.of_unit(&check.unit) };
            context.change(request).await?;
        }
    }
    say(&line);
    Ok(())
}

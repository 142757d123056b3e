//! `bellwether error APP/UNIT`: reports an error that a unit met, and prints what to do about it.

use std::io::Read as _;
use std::time::Duration;

use crate::cli::context::{Context, print_plain, say, say_advice};
use crate::cli::evidence::EvidenceArgs;
use crate::cli::needs::NeedArgs;
use crate::cli::render::faults::class_word;
use crate::cli::render::one_line;
use crate::cli::span;
use crate::cli::target::UnitTarget;
use crate::cli::unit::UnitArgs;
use crate::domain::limits::INTERNAL_DETAIL_BYTES_MAX;
use crate::proto::v1::{
    Contribution, ErrorReport, ExplainApplicationRequest, ReportErrorRequest, StatusKind, Verdict,
    VerdictAction,
};
use bellwether_client::Error;

/// Report an error that a unit met, and print what to do about it
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Part of the unit that met it
    #[arg(long, default_value = "", hide_default_value = true)]
    component: String,
    /// The target of the failed request: a host, an object, a URL without its query
    #[arg(long, default_value = "", hide_default_value = true)]
    target: String,
    #[command(flatten)]
    error: EvidenceArgs,
    /// Detail for operators only, or - to read it from stdin
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    internal_detail: String,
    /// What a person must do
    #[arg(long, default_value = "", hide_default_value = true)]
    action: String,
    /// The generation of its configuration that the work was for
    #[arg(long, default_value = "", hide_default_value = true)]
    generation: String,
    /// The server plans no attempt earlier than this; in a hook, give the interval of the hook
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    shortest_wait: Option<Duration>,
    #[command(flatten)]
    needs: NeedArgs,
    /// Incarnation of the reporting unit
    #[arg(long, value_name = "N")]
    incarnation: Option<u64>,
    /// Same id within 10 minutes: applied once
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
}

/// The number of bytes of a detail to read from stdin: one more than the server accepts, so that
/// the server refuses a longer detail.
const DETAIL_BYTES_READ: u64 = INTERNAL_DETAIL_BYTES_MAX as u64 + 1;

/// Reports the error, and prints the verdict.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    let internal_detail = match args.internal_detail.as_str() {
        "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().take(DETAIL_BYTES_READ).read_to_end(&mut bytes)?;
            // The output of a program may have other bytes than UTF-8, and the limit may be within
            // a character.
            String::from_utf8_lossy(&bytes).into_owned()
        }
        text => text.to_string(),
    };
    let error = ErrorReport {
        component: args.component,
        target: args.target,
        internal_detail,
        action: args.action,
        generation: args.generation,
        shortest_wait: args.shortest_wait.map(span::on_wire),
        needs: args.needs.into_needs(),
        ..args.error.report()
    };
    let request = ReportErrorRequest {
        incarnation: args.incarnation,
        error: Some(error.clone()),
        request_id: args.request_id,
        ..context.of_unit(&target)
    };
    let answer = match context.change(request.clone()).await {
        Err(refused) => match without_reason(&refused, request.error.as_ref()) {
            Some(error) => {
                context.change(ReportErrorRequest { error: Some(error), ..request }).await?
            }
            None => return Err(refused),
        },
        Ok(answer) => answer,
    };
    say_advice(&answer.advice);
    if !context.output.is_structured() {
        let action = asked(context, &target, error).await?;
        print_plain(&verdict(&answer.verdict.unwrap_or_default(), &action))?;
    }
    say(&format!("recorded the error of {} (revision {})", target.unit, answer.revision));
    say(&format!("see: {}", context.hint(&format!("why {}", target.application))));
    Ok(())
}

/// Returns the report as an older server takes it, if the server refuses the reason of the error.
fn without_reason(refused: &anyhow::Error, error: Option<&ErrorReport>) -> Option<ErrorReport> {
    refused.downcast_ref::<Error>()?.without_reason(error?)
}

/// Returns the action for a person: as reported, or as the class of the error defines it.
async fn asked(
    context: &Context,
    target: &UnitTarget,
    error: ErrorReport,
) -> Result<String, Error> {
    if !error.action.is_empty() {
        return Ok(error.action);
    }
    let request: ExplainApplicationRequest = context.of_application(&target.application);
    let why = context.call(request).await?;
    let wanted = (&target.unit, &error.component, &error.target, StatusKind::Unspecified);
    let is_it = |contribution: &&Contribution| {
        let of = contribution.r#ref.as_ref();
        of.is_some_and(|of| (&of.unit, &of.component, &of.target, of.kind()) == wanted)
    };
    let found = why.winner.iter().chain(&why.beaten).find(is_it);
    Ok(found.map_or_else(String::new, |contribution| contribution.action.clone()))
}

/// Formats the verdict, `TRANSIENT`, `RETRY` and so on, in lines that scripts can cut.
fn verdict(verdict: &Verdict, action: &str) -> String {
    let class = class_word(verdict.class);
    let next = verdict.action().as_str_name().trim_start_matches("VERDICT_ACTION_");
    let wait = span::from_wire(verdict.retry_after);
    let wait = wait.map_or_else(String::new, |wait| format!(" in {:.1}s", wait.as_secs_f64()));
    let mut text = format!(
        "class    {class}\nrule     {}: {}\nverdict  {next}{wait}\n",
        verdict.rule, verdict.explanation
    );
    if !action.is_empty() {
        text.push_str(&format!("action   {}\n", one_line(action)));
    }
    if 0 < verdict.attempt {
        let (attempt, left) = (verdict.attempt, verdict.attempts_left);
        text.push_str(&format!("attempt  {attempt}, {left} left\n"));
    }
    if verdict.action() == VerdictAction::Block && !verdict.held {
        text.push_str("held     no: the error may end by itself, and is tried again then\n");
    }
    if verdict.held {
        text.push_str("held     yes: the component stops until the error is resolved\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::ErrorClass;

    #[test]
    fn a_verdict_names_the_step_and_its_time() {
        let given = Verdict {
            class: ErrorClass::Transient.into(),
            action: VerdictAction::Retry.into(),
            retry_after: Some(prost_types::Duration { seconds: 1, nanos: 900_000_000 }),
            attempt: 2,
            attempts_left: 8,
            rule: "grpc.unavailable".into(),
            explanation: "the target is away for now".into(),
            ..Verdict::default()
        };
        let shown = verdict(&given, "look\nthere");
        let expected = "class    TRANSIENT\nrule     grpc.unavailable: the target is away for now\n\
                        verdict  RETRY in 1.9s\naction   look there\nattempt  2, 8 left\n";
        assert_eq!(shown, expected);
        let passes = Verdict { action: VerdictAction::Block.into(), ..given };
        let shown = verdict(&passes, "");
        assert!(shown.contains("verdict  BLOCK in 1.9s\n"), "{shown}");
        assert!(
            shown.ends_with("held     no: the error may end by itself, and is tried again then\n")
        );
    }
}

//! `bellwether error APP/UNIT`: tells of an error that a unit met, and prints what to do about it.

use std::io::Read as _;
use std::time::Duration;

use crate::cli::context::Context;
use crate::cli::context::print;
use crate::cli::context::print_value;
use crate::cli::context::say;
use crate::cli::evidence::EvidenceArgs;
use crate::cli::exit::Exit;
use crate::cli::json;
use crate::cli::target::UnitTarget;
use crate::proto::v1::ErrorReport;
use crate::proto::v1::ReportErrorRequest;
use crate::proto::v1::Verdict;

/// Tell of an error that a unit met, and print what to do about it
#[derive(clap::Args)]
pub struct Args {
    /// The unit, as web/0
    #[arg(value_name = "APP/UNIT")]
    unit: String,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
    /// Part of the unit that met it
    #[arg(long, default_value = "", hide_default_value = true)]
    component: String,
    /// What was asked or acted on: a host, an object, a URL without its query
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
    /// Which generation of its configuration the work was about
    #[arg(long, default_value = "", hide_default_value = true)]
    generation: String,
    /// Incarnation of the unit that speaks
    #[arg(long, value_name = "N")]
    incarnation: Option<u64>,
    /// Same id within 10 minutes: applied once
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
}

/// Bytes of detail that are read from stdin: more is refused by the server.
const DETAIL_BYTES_MAX: u64 = 65_537;

/// Reports, and prints the verdict.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let target = UnitTarget::parse(&args.unit, args.application.as_deref())?;
    let internal_detail = match args.internal_detail.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().lock().take(DETAIL_BYTES_MAX).read_to_string(&mut text)?;
            text
        }
        text => text.to_string(),
    };
    let error = ErrorReport {
        component: args.component,
        target: args.target,
        internal_detail,
        action: args.action,
        generation: args.generation,
        ..args.error.report()
    };
    let client = context.connect().await?;
    let request = client.request(ReportErrorRequest {
        namespace: context.namespace(),
        application: target.application.clone(),
        unit: target.unit.clone(),
        incarnation: args.incarnation,
        error: Some(error),
        request_id: args.request_id,
    });
    let answer = client.answer(client.reports().report_error(request).await)?;
    if context.is_structured() {
        let value = json::from_message(&answer, "ReportErrorResponse")?;
        print_value(&value, context.output)?;
    } else {
        print(&verdict(&answer.verdict.unwrap_or_default()))?;
    }
    say(&format!("noted of {} (revision {})", target.unit, answer.revision));
    say(&format!("see: {}", context.hint(&format!("why {}", target.application))));
    Ok(Exit::Ok)
}

/// `TRANSIENT`, `RETRY` and so on, in lines that scripts can cut.
fn verdict(verdict: &Verdict) -> String {
    let class = verdict.class().as_str_name().trim_start_matches("ERROR_CLASS_");
    let action = verdict.action().as_str_name().trim_start_matches("VERDICT_ACTION_");
    let wait = verdict.retry_after.and_then(|wait| Duration::try_from(wait).ok());
    let wait = wait.map_or_else(String::new, |wait| format!(" in {:.1}s", wait.as_secs_f64()));
    let mut text = format!(
        "class    {class}\nrule     {}: {}\nverdict  {action}{wait}\n",
        verdict.rule, verdict.explanation
    );
    if 0 < verdict.attempt {
        let (attempt, left) = (verdict.attempt, verdict.attempts_left);
        text.push_str(&format!("attempt  {attempt}, {left} left\n"));
    }
    if verdict.held {
        text.push_str("held     yes: the component stands still until it is resolved\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::ErrorClass;
    use crate::proto::v1::VerdictAction;

    #[test]
    fn a_verdict_says_what_to_do_and_when() {
        let said = verdict(&Verdict {
            class: ErrorClass::Transient.into(),
            action: VerdictAction::Retry.into(),
            retry_after: Some(prost_types::Duration { seconds: 1, nanos: 900_000_000 }),
            attempt: 2,
            attempts_left: 8,
            rule: "grpc.unavailable".into(),
            explanation: "it is away for now".into(),
            ..Verdict::default()
        });
        let expected = "class    TRANSIENT\nrule     grpc.unavailable: it is away for now\n\
                        verdict  RETRY in 1.9s\nattempt  2, 8 left\n";
        assert_eq!(said, expected);
    }
}

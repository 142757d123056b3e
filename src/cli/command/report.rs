//! `bellwether report APP/UNIT`: sets one status of one unit.

use std::time::Duration;

use bellwether_client::proto::OfUnit;

use crate::cli::context::{Context, say, say_advice};
use crate::cli::exit::UsageError;
use crate::cli::juju_hook::{JujuHook, juju_hook};
use crate::cli::level::LevelWord;
use crate::cli::needs::NeedArgs;
use crate::cli::render::text::marked;
use crate::cli::unit::UnitArgs;
use crate::cli::{level, span};
use crate::proto::v1::{
    Level, ReportStatusRequest, ReportStatusResponse, StatusKind, StatusReport,
};

/// The kind of a status, as typed; the number is that of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum KindWord {
    /// Replaced as a set at each check.
    Pull = StatusKind::Pull as isize,
    /// Kept until it is cleared or replaced, or until its end.
    Push = StatusKind::Push as isize,
}

/// Report a status of a unit; the application and the unit are created if need be
///
/// `bellwether explain concepts` says what unit and component are, and when to use which level.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// The level
    #[arg(long, short, value_enum)]
    level: LevelWord,
    /// One line for a person
    #[arg(long, short, default_value = "", hide_default_value = true)]
    message: String,
    /// The same in at most 40 characters
    #[arg(long, default_value = "", hide_default_value = true)]
    short_message: String,
    /// Part of the unit that the status is about
    #[arg(long, default_value = "", hide_default_value = true)]
    component: String,
    /// Which of several statuses of the component
    #[arg(long, default_value = "", hide_default_value = true)]
    key: String,
    /// The kind
    #[arg(long, value_enum, default_value_t = KindWord::Push)]
    kind: KindWord,
    /// What a person must do; expected with blocked
    #[arg(long, default_value = "", hide_default_value = true)]
    action: String,
    /// Machine-readable cause, CamelCase
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// The check that found this out
    #[arg(long, default_value = "", hide_default_value = true)]
    check: String,
    /// Higher wins among equal levels
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Higher wins over any level
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    precedence: i32,
    /// A label; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// How long the status is valid without a repeat: 90s, 5m
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    ttl: Option<Duration>,
    /// How long the status lasts without a repeat, from 1s to 30d; then the server removes it
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    ends_after: Option<Duration>,
    #[command(flatten)]
    needs: NeedArgs,
    /// Cut a message, short message, check or action that is too long, instead of failing
    #[arg(long)]
    cut_long_texts: bool,
    /// Incarnation of the reporting unit
    #[arg(long, value_name = "N")]
    incarnation: Option<u64>,
    /// Same id within 10 minutes: applied once
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
}

/// Parses a label, as `KEY=VALUE`.
pub fn label(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .ok_or_else(|| format!("`{text}` is no label: write KEY=VALUE"))
}

/// Reports the status, and prints what changed.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let request = request(args, context.namespace(), juju_hook())?;
    let answer = context.change(request.clone()).await?;
    say(&outcome(&request, &answer));
    say_advice(&answer.advice);
    if answer.changed {
        say(&format!("see: {}", context.hint(&format!("why {}", request.application))));
    }
    Ok(())
}

fn request(
    args: Args,
    namespace: String,
    hook: Option<JujuHook>,
) -> Result<ReportStatusRequest, UsageError> {
    let target = args.unit.target_in(hook)?;
    let status = StatusReport {
        component: args.component,
        key: args.key,
        kind: args.kind as i32,
        level: Level::from(args.level).into(),
        message: args.message,
        short_message: args.short_message,
        reason: args.reason,
        check: args.check,
        action: args.action,
        priority: args.priority,
        precedence: args.precedence,
        labels: args.labels.into_iter().collect(),
        observe_time: None,
        ttl: args.ttl.map(span::on_wire),
        end_after: args.ends_after.map(span::on_wire),
        needs: args.needs.into_needs(),
        since_unknown: false,
    };
    Ok(ReportStatusRequest {
        incarnation: args.incarnation,
        status: Some(status),
        request_id: args.request_id,
        cut_long_texts: args.cut_long_texts,
        ..OfUnit::of_unit(&namespace, &target.application, &target.unit)
    })
}

/// Formats `web/0 database is blocked: add a relation (revision 12)`.
fn outcome(request: &ReportStatusRequest, answer: &ReportStatusResponse) -> String {
    let status = request.status.clone().unwrap_or_default();
    let what = format!("{} {}", request.unit, status.component);
    let what = what.trim_end();
    let level = level::word(status.level);
    let message = marked(": ", &status.message);
    if answer.changed {
        format!("{what} is {level}{message} (revision {})", answer.revision)
    } else {
        format!("no change: {what} was {level}{message} already (revision {})", answer.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn mk_request(line: &[&str], hook: Option<&str>) -> Result<ReportStatusRequest, UsageError> {
        let line = Line::try_parse_from([&["report"], line].concat()).expect("parses");
        let hook = hook.map(|unit| JujuHook { unit: unit.to_string(), model: None });
        request(line.args, "prod".to_string(), hook)
    }

    #[test]
    fn a_request_has_every_given_field() {
        let line = [
            "web/0",
            "--level",
            "blocked",
            "-m",
            "busy",
            "--component",
            "db",
            "--ttl",
            "90s",
            "--ends-after",
            "10m",
            "--label",
            "a=b=c",
            "--priority",
            "-3",
            "--kind",
            "pull",
            "--incarnation",
            "0",
            "--needs",
            "postgresql",
            "--needs",
            "infra/dns=active,waiting",
            "--needs-outside",
            "quota cpu of prod",
        ];
        let request = mk_request(&line, None).expect("a request");
        assert_eq!((request.application.as_str(), request.unit.as_str()), ("web", "web/0"));
        assert_eq!(request.incarnation, Some(0));
        let status = request.status.expect("a status");
        assert_eq!(status.level(), Level::Blocked);
        assert_eq!(status.kind(), StatusKind::Pull);
        assert_eq!(status.ttl.expect("a ttl").seconds, 90);
        assert_eq!(status.end_after.expect("an end").seconds, 600);
        assert_eq!(status.labels.get("a").map(String::as_str), Some("b=c"));
        assert_eq!(status.priority, -3);
        assert_eq!(status.needs.len(), 3);
    }

    #[test]
    fn a_juju_hook_needs_no_unit() {
        let request = mk_request(&["--level", "active"], Some("web/3")).expect("a request");
        assert_eq!((request.application.as_str(), request.unit.as_str()), ("web", "web/3"));
        let given = mk_request(&["db/1", "--level", "active"], Some("web/3"));
        assert_eq!(given.expect("a request").unit, "db/1");
    }

    #[test]
    fn outside_a_hook_the_unit_is_required() {
        let error = mk_request(&["--level", "active"], None).expect_err("no unit");
        assert_eq!(error.to_string(), "no unit given outside of a Juju hook: write APP/UNIT");
    }

    #[test]
    fn an_answer_names_whether_it_changed_a_status() {
        let line = ["web/0", "--level", "blocked", "-m", "add a db", "--component", "db"];
        let request = mk_request(&line, None).expect("a request");
        let mut answer =
            ReportStatusResponse { revision: 12, changed: true, ..ReportStatusResponse::default() };
        assert_eq!(outcome(&request, &answer), "web/0 db is blocked: add a db (revision 12)");
        answer.changed = false;
        assert_eq!(
            outcome(&request, &answer),
            "no change: web/0 db was blocked: add a db already (revision 12)"
        );
    }
}

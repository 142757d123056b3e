//! `bellwether resolve APP/UNIT`: resolves errors, or lets an operator release a component.

use crate::cli::context::{Context, say};
use crate::cli::exit::Exit;
use crate::cli::render::counted;
use crate::cli::render::faults::class_word;
use crate::cli::target::{UnitTarget, retry_command, shell_word};
use crate::cli::unit::UnitArgs;
use crate::proto::v1::{
    HoldResolution, ListFaultsRequest, ResolveErrorRequest, ResolveHoldRequest,
};

/// Resolve errors of a unit; with --retry or --skip, release a component that they hold
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Part of the unit that met the error
    #[arg(long, default_value = "", hide_default_value = true)]
    component: String,
    /// Every component of the unit
    #[arg(long, conflicts_with_all = ["component", "target", "retry", "skip"])]
    all: bool,
    /// The target of the error; without it every target of the component
    #[arg(long, conflicts_with_all = ["retry", "skip"])]
    target: Option<String>,
    /// As an operator: the component tries again, with a fresh budget
    #[arg(long, conflicts_with = "skip")]
    retry: bool,
    /// As an operator: the component goes on without the failed work
    #[arg(long)]
    skip: bool,
    /// Why, for the history; with --retry or --skip
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// The generation of its configuration that the work was for
    #[arg(long, default_value = "", hide_default_value = true)]
    #[arg(conflicts_with_all = ["retry", "skip"])]
    generation: String,
    /// Incarnation of the reporting unit
    #[arg(long, value_name = "N", conflicts_with_all = ["retry", "skip"])]
    incarnation: Option<u64>,
}

/// The most open errors that are listed when none matches.
const OPEN_MAX: i32 = 20;

/// Resolves the errors, and prints how many there were.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let target = args.unit.target()?;
    match args.retry || args.skip {
        true => release_hold(args, target, context).await,
        false => resolve_errors(args, target, context).await,
    }
}

async fn resolve_errors(args: Args, target: UnitTarget, context: &Context) -> anyhow::Result<Exit> {
    let component = args.component;
    let request = ResolveErrorRequest {
        incarnation: args.incarnation,
        component: component.clone(),
        target: args.target,
        all_components: args.all,
        generation: args.generation,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    let unit = &target.unit;
    if 0 < answer.resolved_count {
        let count = counted(answer.resolved_count, "error", "errors");
        say(&format!("resolved {count} of {unit} (revision {})", answer.revision));
    }
    if 0 < answer.held_count {
        let retry = context.hint(&retry_command(&target.application, unit, &component));
        let verb = match answer.held_count {
            1 => "holds its component and needs",
            _ => "hold their component and need",
        };
        say(&format!(
            "{} of {unit} {verb} an operator or a new incarnation: `{retry}` tries again, \
             --skip goes on without what failed",
            counted(answer.held_count, "error", "errors")
        ));
    }
    match answer.resolved_count {
        0 if 0 < answer.held_count => Ok(Exit::Failed),
        0 => list_open(&target, context).await,
        _ => Ok(Exit::Ok),
    }
}

/// Lists the open errors when none matched.
async fn list_open(target: &UnitTarget, context: &Context) -> anyhow::Result<Exit> {
    let request = ListFaultsRequest { page_size: OPEN_MAX, ..context.of_unit(target) };
    let answer = context.call(request).await?;
    let unit = &target.unit;
    if answer.faults.is_empty() {
        say(&format!("no change: {unit} has no open errors"));
        return Ok(Exit::Ok);
    }
    say(&format!("no change: {unit} has no such error; open are:"));
    for fault in &answer.faults {
        let mut flags = format!("--component {}", shell_word(&fault.component));
        if !fault.target.is_empty() {
            flags.push_str(&format!(" --target {}", shell_word(&fault.target)));
        }
        say(&format!("- {flags}  ({})", class_word(fault.class)));
    }
    if !answer.next_page_token.is_empty() {
        let command = context.hint(&format!("why {}", shell_word(&target.application)));
        say(&format!("- and more: {command}"));
    }
    Ok(Exit::NotFound)
}

async fn release_hold(args: Args, target: UnitTarget, context: &Context) -> anyhow::Result<Exit> {
    let (resolution, what) = match args.retry {
        true => (HoldResolution::Retry, "to be tried again"),
        false => (HoldResolution::Skip, "skipped"),
    };
    let request = ResolveHoldRequest {
        component: args.component,
        resolution: resolution.into(),
        reason: args.reason,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    if answer.released_count == 0 {
        return list_open(&target, context).await;
    }
    let count = counted(answer.released_count, "error", "errors");
    say(&format!("{count} of {} {what} (revision {})", target.unit, answer.revision));
    Ok(Exit::Ok)
}

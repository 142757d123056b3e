//! `bellwether resolve APP/UNIT`: resolves errors, or lets an operator release a component.

use crate::cli::context::{Context, say};
use crate::cli::exit::Exit;
use crate::cli::hook::HookArgs;
use crate::cli::render::counted;
use crate::cli::render::faults::class_word;
use crate::cli::target::{UnitTarget, shell_word, unit_words};
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
    #[command(flatten)]
    pub hook: HookArgs,
}

/// The most open errors that are listed when none matches.
const OPEN_MAX: i32 = 20;

/// Resolves the errors, and prints how many there were.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let target = args.unit.target()?;
    match (args.retry, args.skip) {
        (false, false) => over(args, target, context).await,
        (true, _) => let_go(args, target, HoldResolution::Retry, context).await,
        (false, true) => let_go(args, target, HoldResolution::Skip, context).await,
    }
}

async fn over(args: Args, target: UnitTarget, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect().await?;
    let component = args.component;
    let request = client.request(ResolveErrorRequest {
        namespace: context.namespace(),
        application: target.application.clone(),
        unit: target.unit.clone(),
        incarnation: args.incarnation,
        component: component.clone(),
        target: args.target,
        all_components: args.all,
        generation: args.generation,
        ..ResolveErrorRequest::default()
    });
    let answer = client.answer(client.reports().resolve_error(request).await)?;
    context.print_message(&answer, "ResolveErrorResponse")?;
    let unit = &target.unit;
    if 0 < answer.resolved_count {
        let count = counted(answer.resolved_count, "error", "errors");
        say(&format!("resolved {count} of {unit} (revision {})", answer.revision));
    }
    if 0 < answer.held_count {
        let of = match component.as_str() {
            "" => String::new(),
            component => format!(" --component {}", shell_word(component)),
        };
        let words = unit_words(&target.application, unit);
        let retry = context.hint(&format!("resolve {words}{of} --retry"));
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
        0 => unresolved(&target, context).await,
        _ => Ok(Exit::Ok),
    }
}

/// Lists the open errors when none matched.
async fn unresolved(target: &UnitTarget, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect().await?;
    let request = client.request(ListFaultsRequest {
        namespace: context.namespace(),
        application: target.application.clone(),
        unit: target.unit.clone(),
        page_size: OPEN_MAX,
        ..ListFaultsRequest::default()
    });
    let answer = client.answer(client.applications().list_faults(request).await)?;
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

async fn let_go(
    args: Args,
    target: UnitTarget,
    resolution: HoldResolution,
    context: &Context,
) -> anyhow::Result<Exit> {
    let client = context.connect().await?;
    let request = client.request(ResolveHoldRequest {
        namespace: context.namespace(),
        application: target.application.clone(),
        unit: target.unit.clone(),
        component: args.component,
        resolution: resolution.into(),
        reason: args.reason,
        ..ResolveHoldRequest::default()
    });
    let answer = client.answer(client.applications().resolve_hold(request).await)?;
    context.print_message(&answer, "ResolveHoldResponse")?;
    let unit = &target.unit;
    let what = match resolution {
        HoldResolution::Retry => "to be tried again",
        _ => "skipped",
    };
    if answer.released_count == 0 {
        return unresolved(&target, context).await;
    }
    let count = counted(answer.released_count, "error", "errors");
    say(&format!("{count} of {unit} {what} (revision {})", answer.revision));
    Ok(Exit::Ok)
}

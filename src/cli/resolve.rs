//! `bellwether resolve APP/UNIT`: what failed works; or an operator lets a component go on.

use crate::cli::context::Context;
use crate::cli::context::print_value;
use crate::cli::context::say;
use crate::cli::exit::Exit;
use crate::cli::json;
use crate::cli::target::UnitTarget;
use crate::client::Client;
use crate::proto::v1::HoldResolution;
use crate::proto::v1::ResolveErrorRequest;
use crate::proto::v1::ResolveHoldRequest;

/// Say that what failed works; with --retry or --skip, let a component go on that stands still
#[derive(clap::Args)]
pub struct Args {
    /// The unit, as web/0
    #[arg(value_name = "APP/UNIT")]
    unit: String,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
    /// Part of the unit that met the error
    #[arg(long, default_value = "", hide_default_value = true)]
    component: String,
    /// What was asked or acted on; without it every target of the component
    #[arg(long, conflicts_with_all = ["retry", "skip"])]
    target: Option<String>,
    /// As an operator: it tries again, with a fresh budget
    #[arg(long, conflicts_with = "skip")]
    retry: bool,
    /// As an operator: it goes on without what failed
    #[arg(long)]
    skip: bool,
    /// Why, for the history; with --retry or --skip
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// Which generation of its configuration the work was about
    #[arg(long, default_value = "", hide_default_value = true)]
    #[arg(conflicts_with_all = ["retry", "skip"])]
    generation: String,
    /// Incarnation of the unit that speaks
    #[arg(long, value_name = "N", conflicts_with_all = ["retry", "skip"])]
    incarnation: Option<u64>,
}

/// Resolves, and says how many there were.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let target = UnitTarget::parse(&args.unit, args.application.as_deref())?;
    let client = context.connect().await?;
    match (args.retry, args.skip) {
        (false, false) => over(args, target, &client, context).await,
        (retry, _) => {
            let resolution = if retry { HoldResolution::Retry } else { HoldResolution::Skip };
            let_go(args, target, resolution, &client, context).await
        }
    }
}

async fn over(
    args: Args,
    target: UnitTarget,
    client: &Client,
    context: &Context,
) -> anyhow::Result<Exit> {
    let request = client.request(ResolveErrorRequest {
        namespace: context.namespace(),
        application: target.application.clone(),
        unit: target.unit.clone(),
        incarnation: args.incarnation,
        component: args.component,
        target: args.target,
        generation: args.generation,
        ..ResolveErrorRequest::default()
    });
    let answer = client.answer(client.reports().resolve_error(request).await)?;
    if context.is_structured() {
        let value = json::from_message(&answer, "ResolveErrorResponse")?;
        print_value(&value, context.output)?;
    }
    let unit = &target.unit;
    say(&match answer.resolved_count {
        0 => format!("no change: {unit} had no such error, or it holds its component"),
        n => format!("resolved {} of {unit} (revision {})", errors(n), answer.revision),
    });
    if 0 < answer.held_count {
        let retry = context.hint(&format!("resolve {unit} --retry"));
        say(&format!(
            "{} halted, and need an operator or a new incarnation: {retry}",
            errors(answer.held_count)
        ));
    }
    Ok(Exit::Ok)
}

async fn let_go(
    args: Args,
    target: UnitTarget,
    resolution: HoldResolution,
    client: &Client,
    context: &Context,
) -> anyhow::Result<Exit> {
    let request = client.request(ResolveHoldRequest {
        namespace: context.namespace(),
        application: target.application,
        unit: target.unit.clone(),
        component: args.component,
        resolution: resolution.into(),
        reason: args.reason,
        ..ResolveHoldRequest::default()
    });
    let answer = client.answer(client.applications().resolve_hold(request).await)?;
    if context.is_structured() {
        let value = json::from_message(&answer, "ResolveHoldResponse")?;
        print_value(&value, context.output)?;
    }
    let unit = target.unit;
    let what = match resolution {
        HoldResolution::Retry => "to be tried again",
        _ => "skipped",
    };
    say(&match answer.released_count {
        0 => format!("no change: {unit} had no such error"),
        n => format!("{} of {unit} {what} (revision {})", errors(n), answer.revision),
    });
    Ok(Exit::Ok)
}

fn errors(count: i32) -> String {
    match count {
        1 => "1 error".to_string(),
        n => format!("{n} errors"),
    }
}

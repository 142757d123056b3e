//! `bellwether app-status`: the statuses of an application as a whole, set by its leader.

use std::time::Duration;

use crate::cli::command::leader::LeaderArgs;
use crate::cli::command::replace;
use crate::cli::context::{Context, say, say_advice, say_dry};
use crate::cli::level::LevelWord;
use crate::cli::target::UnitTarget;
use crate::cli::unit::UnitArgs;
use crate::cli::{level, span};
use crate::proto::v1::{
    ApplicationStatusMode, ClearApplicationStatusRequest, Level, ReplaceApplicationStatusesRequest,
    SetApplicationStatusRequest, StatusKind, StatusRecord,
};

/// Set or clear the statuses of an application as a whole, as its leader
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Set the status of the application
    Set(Set),
    /// Replace the set of statuses that the leader keeps beside it: a JSON list, as of `replace`
    Replace {
        #[command(flatten)]
        unit: UnitArgs,
        #[command(flatten)]
        set: replace::SetArgs,
        #[command(flatten)]
        leader: LeaderArgs,
    },
    /// Withdraw the status of `set`
    Clear {
        #[command(flatten)]
        unit: UnitArgs,
        #[command(flatten)]
        leader: LeaderArgs,
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(clap::Args)]
struct Set {
    #[command(flatten)]
    unit: UnitArgs,
    /// The level
    #[arg(long, short, value_enum)]
    level: LevelWord,
    /// One line for a person
    #[arg(long, short, default_value = "", hide_default_value = true)]
    message: String,
    /// What a person must do; expected with blocked
    #[arg(long, default_value = "", hide_default_value = true)]
    action: String,
    /// Machine-readable cause, CamelCase
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// How long the status is valid without a repeat: 90s, 5m
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    ttl: Option<Duration>,
    /// It wins over the statuses of all units; without this it is one more
    #[arg(long)]
    overrides: bool,
    #[command(flatten)]
    leader: LeaderArgs,
}

/// Changes the statuses, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    match args.action {
        Action::Set(set) => run_set(set, context).await,
        Action::Replace { unit, set, leader } if set.dry_run => {
            let target = unit.target()?;
            let set = set.read()?;
            leader.check(&target, context).await?;
            let now = own_statuses(&target, context).await?;
            say_dry(&replace::preview(&target.application, &set, &now));
            Ok(())
        }
        Action::Replace { unit, set, leader } => {
            run_replace(unit.target()?, set.read()?, &leader, context).await
        }
        Action::Clear { unit, leader, dry_run: true } => {
            let target = unit.target()?;
            leader.check(&target, context).await?;
            let now = own_statuses(&target, context).await?;
            say_dry(&preview_clear(&target.application, &now));
            Ok(())
        }
        Action::Clear { unit, leader, .. } => run_clear(unit, leader, context).await,
    }
}

/// Returns the statuses of the application as a whole.
async fn own_statuses(target: &UnitTarget, context: &Context) -> anyhow::Result<Vec<StatusRecord>> {
    let client = context.connect().await?;
    let mut all = client.list_statuses(&context.namespace(), &target.application, 0).await?;
    all.retain(|record| record.unit.is_empty());
    Ok(all)
}

/// Says what a clear would do. The status of `set` has no kind; those of `replace` are pull.
fn preview_clear(application: &str, now: &[StatusRecord]) -> String {
    let mut set = now.iter().filter_map(|record| record.report.as_ref());
    match set.find(|report| report.kind() == StatusKind::Unspecified) {
        Some(report) => {
            let word = level::word(report.level);
            format!("would clear the status {word} of {application}")
        }
        None => format!("{application} has no status of its own"),
    }
}

async fn run_set(set: Set, context: &Context) -> anyhow::Result<()> {
    let target = set.unit.target()?;
    let mode = match set.overrides {
        true => ApplicationStatusMode::Override,
        false => ApplicationStatusMode::Contribute,
    };
    let level = Level::from(set.level);
    let request = SetApplicationStatusRequest {
        lease_epoch: set.leader.epoch(&target, context).await?,
        level: level.into(),
        message: set.message,
        mode: mode.into(),
        ttl: set.ttl.map(span::on_wire),
        reason: set.reason,
        action: set.action,
        decided_outside: set.leader.decided_outside,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    let (application, word) = (target.application, level::word(level.into()));
    say(&match answer.changed {
        true => format!("{application} is set to {word} (revision {})", answer.revision),
        false => format!("no change: {application} was set to {word} already"),
    });
    Ok(())
}

async fn run_replace(
    target: UnitTarget,
    given: replace::Set,
    leader: &LeaderArgs,
    context: &Context,
) -> anyhow::Result<()> {
    let count = given.statuses.len();
    let request = ReplaceApplicationStatusesRequest {
        lease_epoch: leader.epoch(&target, context).await?,
        component: given.component,
        statuses: given.statuses,
        decided_outside: leader.decided_outside,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    let result = (answer.changed, answer.removed_count, answer.revision);
    say(&replace::outcome(&target.application, count, result));
    say_advice(&answer.advice);
    Ok(())
}

async fn run_clear(unit: UnitArgs, leader: LeaderArgs, context: &Context) -> anyhow::Result<()> {
    let target = unit.target()?;
    let request = ClearApplicationStatusRequest {
        lease_epoch: leader.epoch(&target, context).await?,
        decided_outside: leader.decided_outside,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    let application = target.application;
    say(&match answer.changed {
        true => format!("the status of {application} is cleared (revision {})", answer.revision),
        false => format!("no change: {application} had no status of its own"),
    });
    Ok(())
}

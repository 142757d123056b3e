//! `bellwether leader`: shows, claims, releases or transfers the leadership of an application.

mod preview;

use std::time::Duration;

use bellwether_client::Error;

use crate::cli::context::{Context, print_plain, say, say_dry};
use crate::cli::exit::{Exit, NotThisUnitError};
use crate::cli::span;
use crate::cli::target::{Target, UnitTarget};
use crate::cli::unit::{AppArgs, UnitArgs};
use crate::proto::v1::{
    ClaimLeadershipRequest, GetLeaderRequest, GetLeaderResponse, Lease, ReleaseLeadershipRequest,
    TransferLeadershipRequest,
};

/// Show or change the leader of an application
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show the leader, and the units that wait to lead
    Get(AppArgs),
    /// Exit with 0 if the unit leads, with 7 if another unit does, with 8 if no unit does yet
    Is(UnitArgs),
    /// Claim leadership for a unit without a session; while another unit leads, wait in line
    Claim {
        #[command(flatten)]
        unit: UnitArgs,
        /// How long the lease lasts without a renewal: 2s to 5m [default: as configured]
        #[arg(long, value_name = "SPAN", value_parser = span::parse)]
        lease: Option<Duration>,
        /// Only say who would lead
        #[arg(long)]
        dry_run: bool,
    },
    /// Release leadership; the unit that waits longest leads next
    Release {
        #[command(flatten)]
        unit: UnitArgs,
        /// Epoch of the lease [default: of the lease that the unit has now]
        #[arg(long)]
        epoch: Option<u64>,
        /// Only say who would lead
        #[arg(long)]
        dry_run: bool,
    },
    /// Make a unit the leader, as an operator
    Transfer {
        #[command(flatten)]
        unit: UnitArgs,
        /// Only say who would lead
        #[arg(long)]
        dry_run: bool,
    },
}

/// Why a unit may write as the leader.
#[derive(clap::Args)]
pub struct LeaderArgs {
    /// Epoch of the lease [default: of the lease that the unit has now]
    #[arg(long)]
    epoch: Option<u64>,
    /// The unit leads by a decision outside, for example by Juju: make it the external leader first
    #[arg(long, conflicts_with = "epoch")]
    pub decided_outside: bool,
}

impl LeaderArgs {
    /// Returns the epoch of the lease; 0 if leadership is decided outside.
    ///
    /// # Errors
    /// If the server does not answer with the leader.
    pub async fn epoch(&self, target: &UnitTarget, context: &Context) -> Result<u64, Error> {
        match self.epoch {
            _ if self.decided_outside => Ok(0),
            Some(epoch) => Ok(epoch),
            None => {
                // The server refuses the epoch 0 of a unit that does not lead.
                let lease = leader(&target.application, context).await?.lease;
                Ok(lease.filter(|lease| lease.unit == target.unit).map_or(0, |l| l.lease_epoch))
            }
        }
    }

    /// Checks for a dry run that the unit may write as the leader.
    ///
    /// # Errors
    /// If the server would refuse the write, or does not answer.
    pub async fn check(&self, target: &UnitTarget, context: &Context) -> anyhow::Result<()> {
        if self.decided_outside {
            return Ok(());
        }
        let lease = leader(&target.application, context).await?.lease;
        let own = lease.as_ref().filter(|lease| lease.unit == target.unit);
        if own.is_some_and(|lease| self.epoch.is_none_or(|epoch| epoch == lease.lease_epoch)) {
            return Ok(());
        }
        let leader = lease.as_ref().map_or_else(|| "; nobody does".to_string(), leads);
        Err(NotThisUnitError(format!("{} does not lead{leader}", target.unit)).into())
    }
}

/// Runs the action.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.action {
        Action::Get(application) => {
            application.given().map(Target::application_only).transpose()?;
            let name = application.name()?;
            let answer = leader(&name, context).await?;
            if answer == GetLeaderResponse::default() {
                // An application that does not exist has no leader either.
                context.application(&name).await?;
            }
            let print_text = || print_plain(&render(&answer));
            context.print_message(&answer, "GetLeaderResponse", print_text)?;
        }
        Action::Is(unit) => {
            let target = unit.target()?;
            let answer = leader(&target.application, context).await?;
            return is_leader(&target.unit, &answer, context);
        }
        Action::Claim { unit, dry_run: true, .. } => {
            let target = unit.target()?;
            let now = leader(&target.application, context).await?;
            say_dry(&preview::claim(&target.unit, &now)?);
        }
        Action::Claim { unit, lease, .. } => {
            let target = unit.target()?;
            let request = ClaimLeadershipRequest {
                lease_duration: lease.map(span::on_wire),
                ..context.of_unit(&target)
            };
            show_lease(context.call(request).await?.lease, context)?;
        }
        Action::Release { unit, epoch, dry_run: true } => {
            let target = unit.target()?;
            let now = leader(&target.application, context).await?;
            say_dry(&preview::release(&target.unit, epoch, &now)?);
        }
        Action::Release { unit, epoch, .. } => release(unit.target()?, epoch, context).await?,
        Action::Transfer { unit, dry_run } => transfer(unit.target()?, dry_run, context).await?,
    }
    Ok(Exit::Ok)
}

/// Returns whether a unit leads, as an exit code, and prints the leader.
fn is_leader(unit: &str, answer: &GetLeaderResponse, context: &Context) -> anyhow::Result<Exit> {
    context.print_message(answer, "GetLeaderResponse", || Ok(()))?;
    let Some(lease) = &answer.lease else {
        say("nobody leads yet");
        return Ok(Exit::NotYet);
    };
    say(&words(lease));
    Ok(if lease.unit == unit { Exit::Ok } else { Exit::NotThisUnit })
}

/// Releases leadership, and prints the result.
async fn release(target: UnitTarget, epoch: Option<u64>, context: &Context) -> anyhow::Result<()> {
    let UnitTarget { application, unit } = &target;
    let before = leader(application, context).await?.lease;
    let own = before.as_ref().filter(|lease| lease.unit == *unit);
    let Some(lease_epoch) = epoch.or(own.map(|lease| lease.lease_epoch)) else {
        let leader = before.as_ref().map_or_else(String::new, leads);
        say(&format!("no change: {unit} did not lead{leader}"));
        return Ok(());
    };
    let request = ReleaseLeadershipRequest { lease_epoch, ..context.of_unit(&target) };
    context.call(request).await?;
    if own.is_none() {
        say(&format!("no change: {unit} did not lead"));
        return Ok(());
    }
    let after = leader(application, context).await?.lease;
    let next = after.as_ref().map_or_else(|| "; nobody does".to_string(), leads);
    say(&format!("{unit} no longer leads{next}"));
    Ok(())
}

/// Transfers leadership, or says what that would do.
async fn transfer(target: UnitTarget, dry_run: bool, context: &Context) -> anyhow::Result<()> {
    let UnitTarget { application, unit } = target;
    if dry_run {
        let now = leader(&application, context).await?;
        let client = context.connect().await?;
        let units = client.list_units(&context.namespace(), &application, 0).await?;
        say_dry(&preview::transfer(&unit, &units, &now)?);
        return Ok(());
    }
    let request =
        TransferLeadershipRequest { to_unit: unit, ..context.of_application(&application) };
    show_lease(context.call(request).await?.lease, context)
}

/// Formats `; web/1 does (epoch 2)`.
fn leads(lease: &Lease) -> String {
    match lease.lease_epoch {
        0 => format!("; {} does, as decided outside", lease.unit),
        epoch => format!("; {} does (epoch {epoch})", lease.unit),
    }
}

async fn leader(application: &str, context: &Context) -> Result<GetLeaderResponse, Error> {
    context.call(context.of_application::<GetLeaderRequest>(application)).await
}

fn show_lease(lease: Option<Lease>, context: &Context) -> anyhow::Result<()> {
    let lease = lease.unwrap_or_default();
    context.print_message(&lease, "Lease", || print_plain(&format!("{}\n", words(&lease))))
}

fn words(lease: &Lease) -> String {
    let (unit, epoch) = (&lease.unit, lease.lease_epoch);
    match (span::from_wire(lease.duration).map(span::exact), &lease.expire_time) {
        (None, _) if epoch == 0 => format!("{unit} leads, as decided outside"),
        (None, _) => format!("{unit} leads, epoch {epoch}"),
        (Some(length), None) => format!(
            "{unit} leads, epoch {epoch}, while it sends heartbeats, at least every {length}"
        ),
        (Some(length), Some(at)) => format!(
            "{unit} leads, epoch {epoch}, until {at} unless renewed, for {length} at a time"
        ),
    }
}

fn render(answer: &GetLeaderResponse) -> String {
    let mut text = match &answer.lease {
        Some(lease) => format!("{}\n", words(lease)),
        None => "nobody leads\n".to_string(),
    };
    for (n, unit) in answer.candidates.iter().enumerate() {
        text.push_str(&format!("{}. in line: {unit}\n", n + 1));
    }
    let shown = i32::try_from(answer.candidates.len()).unwrap_or(i32::MAX);
    if shown < answer.candidate_count {
        text.push_str(&format!("and {} more\n", answer.candidate_count - shown));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_lease() -> Lease {
        Lease {
            unit: "web/0".into(),
            lease_epoch: 3,
            duration: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
            ..Lease::default()
        }
    }

    #[test]
    fn the_leader_and_its_candidates_are_printed() {
        let answer = GetLeaderResponse {
            lease: Some(mk_lease()),
            candidates: vec!["web/2".into(), "web/1".into()],
            candidate_count: 5,
            ..GetLeaderResponse::default()
        };
        let expected = "\
web/0 leads, epoch 3, while it sends heartbeats, at least every 15s
1. in line: web/2
2. in line: web/1
and 3 more
";
        assert_eq!(render(&answer), expected);
        assert_eq!(render(&GetLeaderResponse::default()), "nobody leads\n");
    }

    #[test]
    fn a_lease_is_printed_with_its_length() {
        let at = prost_types::Timestamp { seconds: 1_700_000_000, nanos: 0 };
        let timed = Lease { expire_time: Some(at), ..mk_lease() };
        let expected =
            "web/0 leads, epoch 3, until 2023-11-14T22:13:20Z unless renewed, for 15s at a time";
        assert_eq!(words(&timed), expected);
        let outside = Lease { unit: "web/0".into(), ..Lease::default() };
        assert_eq!(words(&outside), "web/0 leads, as decided outside");
    }
}

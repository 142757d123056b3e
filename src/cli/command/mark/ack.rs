//! `bellwether ack APP[/UNIT]`: acknowledges a problem.

use std::time::Duration;

use super::CoverArgs;
use crate::cli::context::Context;
use crate::cli::span;
use crate::proto::v1::{Mark, MarkKind};

/// Acknowledge a problem: it stays as it is, and others see who knows of it
///
/// The acknowledgement ends after --during, as soon as something covered gets worse than now, and
/// once everything covered has been well for ten minutes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    cover: CoverArgs,
    /// For how long at most: 4h, 7d; at most 30d
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    during: Duration,
}

/// Sets the marks.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let mark = Mark { kind: MarkKind::Acknowledged.into(), ..Mark::default() };
    args.cover.set(mark, args.during, context).await
}

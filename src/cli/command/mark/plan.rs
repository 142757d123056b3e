//! `bellwether plan APP[/UNIT]`: announces planned work.

use std::time::Duration;

use jiff::Timestamp;

use super::CoverArgs;
use crate::cli::context::Context;
use crate::cli::exit::UsageError;
use crate::cli::render::time;
use crate::cli::span;
use crate::proto::v1::{Mark, MarkKind};

/// Announce planned work: meanwhile what it covers counts as maintenance at worst
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    cover: CoverArgs,
    /// For how long: 1h, 2d; at most 30d
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    during: Duration,
    /// Begin after this time instead of now
    #[arg(long, value_name = "SPAN", value_parser = span::parse, conflicts_with = "from")]
    r#in: Option<Duration>,
    /// Begin at this time, as 2026-12-01T22:00Z; at most 90 days ahead
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End also once everything covered has been well for ten minutes
    #[arg(long)]
    ends_when_well: bool,
}

/// Sets the marks.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let start_time = match (&args.from, args.r#in) {
        (Some(from), _) => Some(moment(from)?),
        (None, Some(ahead)) => Some(Timestamp::now().checked_add(ahead)?),
        (None, None) => None,
    };
    let mark = Mark {
        kind: MarkKind::Planned.into(),
        start_time: start_time.map(time::to_wire),
        ends_when_well: args.ends_when_well,
        ..Mark::default()
    };
    args.cover.set(mark, args.during, context).await
}

/// Reads a time with its offset.
fn moment(text: &str) -> Result<Timestamp, UsageError> {
    let wrong = || {
        UsageError(format!("`{text}` is no time: write it with its offset, as 2026-12-01T22:00Z"))
    };
    text.parse().map_err(|_| wrong())
}

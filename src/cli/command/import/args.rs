//! What every import is given: its document, and how it is imported.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::exit::UsageError;
use crate::cli::span;

/// Limits of a ttl on the wire.
const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(30 * 86_400);

/// An import that comes again and again is valid for this many intervals: one that fails or comes
/// late makes nothing stale.
const INTERVALS_VALID: u32 = 3;

/// The document, and how it is imported.
#[derive(clap::Args)]
pub struct Args {
    /// The document; - or nothing is standard input
    #[arg(conflicts_with = "command")]
    pub file: Option<PathBuf>,
    /// Run the command after -- again after each SPAN, and import its output
    #[arg(long, value_name = "SPAN", value_parser = span::parse, requires = "command")]
    pub every: Option<Duration>,
    /// What is imported is stale after SPAN without another import [default: three times --every]
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    ttl: Option<Duration>,
    /// Remove what the document lacks even if that is more than half of what was imported
    #[arg(long)]
    pub prune: bool,
    /// Print what the import would change, and change nothing
    #[arg(long, conflicts_with = "every")]
    pub dry_run: bool,
    /// The command that prints the document
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

impl Args {
    /// Returns how long the import is valid.
    ///
    /// # Errors
    /// A span that no ttl can have, before the first call.
    pub fn ttl(&self) -> Result<Option<Duration>, UsageError> {
        if self.every.is_some_and(|every| every.is_zero()) {
            return Err(UsageError("--every needs a span longer than nothing".to_string()));
        }
        if self.ttl.is_some_and(|ttl| !(TTL_MIN..=TTL_MAX).contains(&ttl)) {
            return Err(UsageError("--ttl needs a span between 1s and 30d".to_string()));
        }
        let of_every =
            |every: Duration| every.saturating_mul(INTERVALS_VALID).clamp(TTL_MIN, TTL_MAX);
        Ok(self.ttl.or(self.every.map(of_every)))
    }
}

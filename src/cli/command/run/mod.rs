//! `bellwether run`: runs commands that know nothing of Bellwether.
//!
//! ```text
//!  checks:     schedule --> plugin --> outcome --> session of the unit --> server
//!  operation:  begin, resume --> keeper --> command --> complete, fail, release
//! ```

mod checks;
pub mod keeper;
mod operation;
mod process;

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::command::run::checks::definition::{Definition, PluginCheck};
use crate::cli::command::run::operation::args::OperationArgs;
use crate::cli::command::run::operation::work::CommandWork;
use crate::cli::command::run::operation::{carry, resume};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, UsageError};
use crate::cli::level::LevelWord;
use crate::cli::span;
use crate::cli::unit::UnitArgs;

/// Run monitoring plugins and report what they find, or a command as an operation
///
/// A plugin that exits with 0, 1 or 2 gives a status. Any other end is an error of the plugin, and
/// the status before it stays until its ttl.
///
/// With --operation, the work is recorded before the command starts, held while it runs, and
/// resumed by the next run if this one dies. The command is dead before another run may begin.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Part of the unit that the plugin checks [default: the name of the plugin without check_]
    #[arg(long, conflicts_with = "file")]
    component: Option<String>,
    /// A file with checks, as TOML: one table [[check]] for each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["unit", "command"])]
    file: Option<PathBuf>,
    /// Repeat the check at this interval, until SIGTERM: 1s to 10d [default: once]
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    every: Option<Duration>,
    /// How long the plugin may run before it is ended: 1s to 1h
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "10s")]
    timeout: Duration,
    /// How long a status is valid without the next one [default: 3 x --every]
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    ttl: Option<Duration>,
    /// How many plugins run at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_024))]
    parallel: u16,
    /// The level of exit code 1: waiting, maintenance, active or blocked
    #[arg(
        long,
        value_enum,
        value_name = "LEVEL",
        hide_possible_values = true,
        default_value = "waiting"
    )]
    warning_as: LevelWord,
    /// The level of exit code 2: error or blocked
    #[arg(
        long,
        value_enum,
        value_name = "LEVEL",
        hide_possible_values = true,
        default_value = "error"
    )]
    critical_as: LevelWord,
    /// Show the whole command line in `why`; without it, only the name of the plugin
    #[arg(long)]
    show_command: bool,
    /// The plugin or the command, with its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
    #[command(flatten)]
    operation: OperationArgs,
}

/// Runs the checks or the operation.
///
/// # Errors
/// If a definition is wrong, or the server refuses what is reported.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.operation.resume {
        return resume::resume(&args.unit.target()?, context).await;
    }
    if args.operation.operation.is_some() {
        return carry::run(CommandWork::new(args.operation, args.command)?, context).await;
    }
    let parallel = usize::from(args.parallel);
    match args.checks()? {
        Checks::Once(check) => checks::once::run(&check, context).await?,
        Checks::Repeated(checks) => checks::repeated::run(checks, parallel, context).await?,
    }
    Ok(Exit::Ok)
}

/// The checks to run.
enum Checks {
    Once(Box<PluginCheck>),
    Repeated(Vec<PluginCheck>),
}

impl Args {
    /// Returns whether the command answers Ctrl-C itself, because work must be handed over first.
    pub fn answers_interrupts(&self) -> bool {
        self.operation.resume || self.operation.operation.is_some()
    }

    fn checks(self) -> Result<Checks, UsageError> {
        let given = Definition {
            every: self.every,
            timeout: self.timeout,
            ttl: self.ttl,
            warning_as: self.warning_as.into(),
            critical_as: self.critical_as.into(),
            shows_command: self.show_command,
        };
        if let Some(path) = &self.file {
            return checks::file::read(path, &given).map(Checks::Repeated);
        }
        if self.command.is_empty() {
            let text = "nothing to run: write `run APP/UNIT -- PLUGIN ...`, or `run --file FILE`";
            return Err(UsageError(text.to_string()));
        }
        let unit = self.unit.target()?;
        let check = given.check(unit, self.component, self.command).map_err(UsageError)?;
        Ok(match check.every {
            None => Checks::Once(Box::new(check)),
            Some(_) => Checks::Repeated(vec![check]),
        })
    }
}

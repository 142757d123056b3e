//! `bellwether import`: reports what another system says about its parts.
//!
//! ```text
//!  source --text--> format: reader, table --facts--> plan --steps--> carry_out --calls--> server
//!                   (a folder each)                  ^--- the state of the server ---'
//! ```
//!
//! The whole document is read and checked before the first call, so a document with a mistake
//! changes nothing. A new source is a folder with its reader, its table and its tests, and a line
//! in [`Source`].

mod args;
mod carry_out;
mod cluster;
mod describe;
mod facts;
mod follow;
mod format;
mod helm;
mod json;
mod juju;
mod known;
mod kubernetes;
mod name;
mod origin;
mod outcome;
mod plan;
mod source;
mod step;
mod systemd;
mod work;

use crate::cli::command::import::args::Args;
use crate::cli::command::import::carry_out::once;
use crate::cli::command::import::format::Format;
use crate::cli::command::import::outcome::{say_notes, say_result};
use crate::cli::command::import::plan::Options;
use crate::cli::context::{Context, say};
use crate::cli::exit::Exit;

/// Import statuses from another system
#[derive(clap::Subcommand)]
pub enum Source {
    /// Import what `juju status --format json` shows; a repeat reports only changes
    Juju(Args),
    /// Import what `kubectl get -o json` prints of a cluster; a repeat reports only changes
    Kubernetes(kubernetes::KubernetesArgs),
    /// Import what `helm list -o json` prints of a cluster; a repeat reports only changes
    Helm(helm::HelmArgs),
    /// Import what `systemctl show` prints of the units of a host; a repeat reports only changes
    Systemd(systemd::SystemdArgs),
}

impl Source {
    fn split(self) -> anyhow::Result<(Format, Args)> {
        Ok(match self {
            Source::Juju(args) => (juju::format(), args),
            Source::Kubernetes(given) => kubernetes::format(given)?,
            Source::Helm(given) => helm::format(given)?,
            Source::Systemd(given) => (systemd::format(&given)?, given.common),
        })
    }
}

/// Reads a document and plans its import into an empty namespace, for tests of another crate.
///
/// # Errors
/// Those of an import.
#[cfg(any(test, feature = "testing"))]
pub fn read_and_plan(text: &str) -> anyhow::Result<()> {
    let format = juju::format();
    let facts = (format.read)(text)?;
    let known = std::collections::BTreeMap::new();
    plan::plan(facts, &format.origin, None, &known, Options::default());
    Ok(())
}

/// Imports once, or repeatedly with `--every`.
pub async fn run(source: Source, context: &Context) -> anyhow::Result<Exit> {
    let (format, args) = source.split()?;
    let options = Options { ttl: args.ttl()?, prune: args.prune };
    if let (Some(given), Some(_)) = (&context.namespace, &format.own_namespace) {
        // It may be that of a context, so it is no mistake.
        say(&format!("note: namespace {given} does not apply: each object names its own"));
    }
    if let Some(every) = args.every {
        return follow::follow(every, &args.command, &format, options, context).await;
    }
    let text = if args.command.is_empty() {
        source::read_file(args.file.as_deref(), &format)?
    } else {
        source::read_command(&args.command, format.bytes_max).await?
    };
    let facts = (format.read)(&text)?;
    if args.dry_run {
        return carry_out::tried(facts, &format, options, context).await.map(Exit::from);
    }
    let (namespace, outcome) = once(facts, &format.origin, options, context).await?;
    say_notes(&outcome);
    say_result(&outcome, namespace.as_deref());
    outcome.check_kept(format.whole)?;
    Ok(Exit::Ok)
}

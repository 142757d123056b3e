//! `bellwether backup`: a copy of the embedded store as of one moment, while a server uses it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::cli::context::{Context, print_plain};
use crate::cli::exit::UsageError;
use crate::cli::span;
use crate::config::{self, StoreChoice};
use crate::store::embedded::backup::take;

/// Copy the embedded store into a new folder, while the server runs
///
/// It takes the flags, variables and configuration file of `serve`. The copy has every report that
/// was acknowledged before the command began. It is checked before the command succeeds, and is a
/// data directory: `bellwether serve --data-dir FOLDER` starts from it.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: config::StoreFlags,

    /// The new folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Time limit for the copy
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = span::parse)]
    timeout: Duration,
}

/// Takes the backup and prints what it has.
pub fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let wrong = |text: String| UsageError(text);
    let store = StoreChoice::load(args.store).map_err(|error| wrong(error.to_string()))?;
    let StoreChoice::Embedded(dir) = store else {
        let text = "only the embedded store is copied; docs/backup.md has what Redis needs, and a \
                    store in memory has nothing to keep";
        return Err(wrong(text.to_string()).into());
    };
    let taken = take(&dir, &args.folder, args.timeout)?;
    let value = json!({
        "folder": args.folder,
        "applications": taken.applications,
        "store_epoch": taken.epoch.to_string(),
        "position": taken.position,
        "bytes": taken.bytes,
        "online": taken.is_online,
    });
    context.print_value(&value, || {
        let size = taken.bytes.div_ceil(1 << 20);
        let (folder, dir) = (args.folder.display(), dir.display());
        print_plain(&format!(
            "{folder} has {} applications of {dir}, {size} MiB, up to change {}\n",
            taken.applications, taken.position
        ))
    })
}

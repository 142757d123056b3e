//! `bellwether man`: manual pages, generated from the definitions of `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::context::{print, say};

/// Print the manual page: bellwether man | man -l -; or write one for each command
#[derive(clap::Args)]
pub struct Args {
    /// Write a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the page of the command line `C`, or writes all pages.
pub fn run<C: CommandFactory>(args: &Args) -> anyhow::Result<()> {
    let mut command = C::command();
    command.build();
    match &args.dir {
        None => print(&page(&command)?)?,
        Some(dir) => {
            fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
            let count = write(&command, dir)?;
            say(&format!("wrote {count} pages to {}", dir.display()));
        }
    }
    Ok(())
}

/// Writes the pages of a command and of its subcommands; returns their number.
fn write(command: &Command, dir: &Path) -> anyhow::Result<usize> {
    let path = dir.join(format!("{}.1", command.get_display_name().unwrap_or("bellwether")));
    fs::write(&path, page(command)?).with_context(|| format!("write {}", path.display()))?;
    subcommands(command)
        .map(|command| write(command, dir))
        .sum::<anyhow::Result<usize>>()
        .map(|n| n + 1)
}

/// Returns the subcommands that are shown.
pub fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help")
}

fn page(command: &Command) -> anyhow::Result<String> {
    let mut roff = Vec::new();
    Man::new(command.clone()).render(&mut roff)?;
    Ok(String::from_utf8(roff)?)
}

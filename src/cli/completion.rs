//! `bellwether completion SHELL`: prints what the shell is to source.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::context::print;
use crate::cli::exit::Exit;

/// Print completions: bellwether completion bash > /etc/bash_completion.d/bellwether
#[derive(clap::Args)]
pub struct Args {
    /// For which shell
    shell: Shell,
}

/// Prints the completions of the command line `C`.
pub fn run<C: CommandFactory>(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "bellwether", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Exit::Ok)
}

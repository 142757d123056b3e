//! `bellwether completion SHELL`: prints a script for the shell to source. The shell then runs this
//! program for each word; names of namespaces, applications and units come from the server.

use std::ffi::{OsStr, OsString};
use std::io;
use std::time::Duration;

use clap::{Command, CommandFactory, FromArgMatches};
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{CompletionCandidate, Shell};
use tokio::time::timeout;

use crate::cli::Cli;
use crate::cli::context::print;
use crate::cli::contexts::Given;
use crate::cli::security::SecurityArgs;

/// The variable with which a shell asks for completions.
const VARIABLE: &str = "BELLWETHER_COMPLETE";

/// How long to wait for names; later ones are of no use to a person who types.
const NAMES_TIMEOUT: Duration = Duration::from_millis(700);

/// The most names in one answer to a shell.
const NAMES_MAX: usize = 1_000;

/// Print completions: source <(bellwether completion bash), in ~/.bashrc
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script that registers the completions.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let name = args.shell.to_string();
    let shell =
        shells.completer(&name).ok_or_else(|| anyhow::anyhow!("no completion for {name}"))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "bellwether", "bellwether", "bellwether", &mut script)?;
    print(&String::from_utf8(script)?)?;
    Ok(())
}

/// Answers a shell that asks for completions; returns whether one did.
///
/// # Errors
/// If the answer cannot be written.
pub fn answered(factory: impl Fn() -> Command) -> io::Result<bool> {
    let directory = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(factory).var(VARIABLE);
    asked.try_complete(std::env::args_os(), directory.as_deref()).map_err(io::Error::other)
}

/// What a word names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Namespace,
    Application,
    /// An application, or a unit behind its first `/`.
    Unit,
}

/// Completes names of namespaces.
pub fn namespaces() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| names(current, Named::Namespace))
}

/// Completes names of applications.
pub fn applications() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| names(current, Named::Application))
}

/// Completes names of applications, and of units behind their first `/`.
pub fn units() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| names(current, Named::Unit))
}

/// Returns the names that match; none after any error, because a shell cannot show one.
fn names(current: &OsStr, named: Named) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy().into_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    // A shell passes the line behind `--`.
    let line = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let asked = async { timeout(NAMES_TIMEOUT, ask(line, &typed, named)).await };
    let names = runtime.block_on(asked).ok().flatten().unwrap_or_default();
    let plain =
        |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
    names
        .into_iter()
        .filter(|name| name.starts_with(&typed) && plain(name))
        .take(NAMES_MAX)
        .map(CompletionCandidate::new)
        .collect()
}

async fn ask(line: Vec<OsString>, typed: &str, named: Named) -> Option<Vec<String>> {
    let context = given(line)?.with_context().ok()?.settings(None, NAMES_TIMEOUT);
    let client = context.connect().await.ok()?;
    if named == Named::Namespace {
        let namespaces = client.list_namespaces().await.ok()?;
        return Some(namespaces.into_iter().map(|namespace| namespace.name).collect());
    }
    match typed.split_once('/').filter(|_| named == Named::Unit) {
        Some((application, _)) => {
            let units = client.list_units(&context.namespace(), application, 0).await.ok()?;
            Some(units.into_iter().map(|unit| unit.name).collect())
        }
        None => {
            let applications = client.list_applications(&context.namespace()).await.ok()?;
            Some(applications.into_iter().map(|application| application.name).collect())
        }
    }
}

/// Returns the global options of the line typed so far, and their variables.
fn given(line: Vec<OsString>) -> Option<Given> {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(line).ok()?;
    let of = |id| matches.get_one::<String>(id).cloned().filter(|text| !text.is_empty());
    Some(Given {
        context: of("context"),
        server: of("server"),
        namespace: of("namespace"),
        security: SecurityArgs::from_arg_matches(&matches).ok()?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_in_the_line_typed_so_far() {
        for (line, namespace) in [
            ("bellwether -n prod status w", Some("prod")),
            ("bellwether status w -n prod", Some("prod")),
            ("bellwether --namespace=prod why", Some("prod")),
            ("bellwether -n prod report --level", Some("prod")),
            ("bellwether log -n 5 w", None),
            ("bellwether -n prod log -n 5 w", Some("prod")),
            ("bellwether log --namespace prod w", Some("prod")),
            ("bellwether status", None),
        ] {
            let words = line.split(' ').map(OsString::from).collect();
            let given = given(words).expect("the line is read");
            assert_eq!(given.namespace.as_deref(), namespace, "{line}");
        }
    }
}

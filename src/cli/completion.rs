//! `bellwether completion SHELL`: prints a script for the shell to source. The shell then runs this
//! program for each word; names of applications and units come from the server.

use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use bellwether_client::Security;
use clap::Command;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{CompletionCandidate, Shell};

use crate::cli::context::print;
use crate::cli::contexts::Given;

/// The variable with which a shell asks for completions.
const VARIABLE: &str = "BELLWETHER_COMPLETE";

/// How long to wait for names; later ones are of no use to a person who types.
const PATIENCE: Duration = Duration::from_millis(700);

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

/// Completes names of applications.
pub fn applications() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| names(current, false))
}

/// Completes names of applications, and of units behind their first `/`.
pub fn units() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| names(current, true))
}

/// Returns the names that match; none after any error, because a shell cannot show one.
fn names(current: &OsStr, with_units: bool) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy().into_owned();
    let words: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let asked = async { tokio::time::timeout(PATIENCE, ask(&words, &typed, with_units)).await };
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

async fn ask(words: &[String], typed: &str, with_units: bool) -> Option<Vec<String>> {
    let of = |flags: &[&str], variable: &str| {
        given(words, flags).or_else(|| std::env::var(variable).ok()).filter(|v| !v.is_empty())
    };
    let given = Given {
        context: of(&["--context"], "BELLWETHER_CONTEXT"),
        server: of(&["--server"], "BELLWETHER_SERVER"),
        // After `log`, -n is --limit.
        namespace: match words.iter().any(|word| word == "log") {
            true => of(&["--namespace"], "BELLWETHER_NAMESPACE"),
            false => of(&["-n", "--namespace"], "BELLWETHER_NAMESPACE"),
        },
        security: Security::from_env(),
    };
    let context = given.with_context().ok()?.settings(None, PATIENCE);
    let client = context.connect().await.ok()?;
    match typed.split_once('/').filter(|_| with_units) {
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

/// Returns the value of a flag in the line typed so far.
fn given(words: &[String], flags: &[&str]) -> Option<String> {
    let value = |pair: &[String]| match flags.contains(&pair[0].as_str()) {
        true => pair.get(1).cloned(),
        false => None,
    };
    let joined = |word: &String| {
        let (flag, value) = word.split_once('=')?;
        flags.contains(&flag).then(|| value.to_string())
    };
    words.windows(2).find_map(value).or_else(|| words.iter().find_map(joined))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_in_the_line_typed_so_far() {
        let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
        let flags = ["-n", "--namespace"];
        assert_eq!(given(&words("bellwether -n prod status w"), &flags).as_deref(), Some("prod"));
        let joined = given(&words("bellwether --namespace=prod why"), &flags);
        assert_eq!(joined.as_deref(), Some("prod"));
        assert_eq!(given(&words("bellwether status"), &flags), None);
    }
}

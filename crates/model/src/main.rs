//! `bellwether-model`: explores every order of events within small bounds, with the real rules.

mod commits;
mod known;
mod leases;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::hash::Hash;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Parser;
use stateright::{Checker, Expectation, Model};

use commits::Commits;
use leases::Leases;

/// Explores every order of events of the commit protocol and of leases, within small bounds.
#[derive(Parser)]
struct Arguments {
    /// Explores the bounds of the tests: seconds instead of minutes
    #[arg(long)]
    tiny: bool,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Explores one model: commits or leases
    #[arg(long)]
    only: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bellwether-model: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let (commits, leases) = bounds(arguments.tiny);
    let is_chosen = |name: &str| arguments.only.as_deref().is_none_or(|only| only == name);
    let mut failed = 0;
    for bounds in commits.into_iter().filter(|_| is_chosen("commits")) {
        let name = format!("commits {bounds:?}");
        failed += explore(&name, Commits { bounds, fault: None }, arguments.threads);
    }
    for bounds in leases.into_iter().filter(|_| is_chosen("leases")) {
        let name = format!("leases {bounds:?}");
        failed += explore(&name, Leases { bounds, fault: None }, arguments.threads);
    }
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} properties do not hold"),
    }
}

/// Returns the bounds of the runs: those of `make model`, or those of the tests.
fn bounds(tiny: bool) -> (Vec<commits::Bounds>, Vec<leases::Bounds>) {
    use commits::Bounds;
    let small = Bounds {
        reports: 1,
        calls: 2,
        resends: 0,
        give_ups: 0,
        failovers: 1,
        dropped: 1,
        old_calls: false,
    };
    let lease = leases::Bounds { ticks: 2, messages: 3, failovers: 1, dropped: 1 };
    if tiny {
        return (vec![small], vec![lease]);
    }
    // Each fits into 4 GiB of memory. Two failovers, or two reports beside one, do not.
    let commits = vec![
        Bounds { give_ups: 1, ..small },
        Bounds { reports: 2, resends: 1, give_ups: 1, failovers: 0, ..small },
    ];
    (commits, vec![lease, leases::Bounds { ticks: 3, messages: 4, ..lease }])
}

/// Explores a model, and prints what was found. Returns how many properties fail.
fn explore<M>(name: &str, model: M, threads: usize) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let started = Instant::now();
    let checker = model.checker().threads(threads).spawn_bfs().join();
    let (all, unique, depth) =
        (checker.state_count(), checker.unique_state_count(), checker.max_depth());
    let seconds = started.elapsed().as_secs_f64();
    println!("{name}: {unique} states, {all} steps, at most {depth} deep, in {seconds:.1} s");
    let mut failed = 0;
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        let (holds, word) = match (&property.expectation, &found) {
            (Expectation::Sometimes, Some(_)) => (true, "occurs"),
            (Expectation::Sometimes, None) => (false, "NEVER OCCURS"),
            (_, None) => (true, "holds"),
            (_, Some(_)) => (false, "FAILS"),
        };
        println!("  {word}: {}", property.name);
        if holds {
            continue;
        }
        failed += 1;
        for (n, action) in found.into_iter().flat_map(|path| path.into_actions()).enumerate() {
            println!("    {}. {action:?}", n + 1);
        }
    }
    failed
}

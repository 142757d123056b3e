//! The checks of losses: a replica that has seen what another master does not have counts a loss as
//! soon as it has compared that master.

use std::sync::Arc;

use crate::process::Process;
use crate::server::{BucketState, Lost, Servers};

/// Losses that must be counted.
#[derive(Default)]
pub struct Losses(Vec<Expected>);

struct Expected {
    lost: Lost,
    /// The history of the master that lacks it.
    history: String,
    /// The processes that have seen it, by their generation.
    witnesses: Vec<u64>,
}

impl Losses {
    /// Notes which processes have seen what a master has lost just now.
    pub fn expect(&mut self, lost: &[Lost], servers: &Servers, processes: &[Option<Arc<Process>>]) {
        for lost in lost {
            let history = servers.history_of(lost.bucket);
            let has_seen = |process: &&Arc<Process>| {
                let known = process.hub.get(&lost.app);
                known.is_some_and(|entry| entry.position == lost.position)
                    && servers.bucket(lost.bucket).last < lost.position
            };
            let seen = processes.iter().flatten().filter(has_seen);
            let witnesses: Vec<u64> = seen.map(|process| process.generation).collect();
            if !witnesses.is_empty() {
                self.0.push(Expected { lost: lost.clone(), history, witnesses });
            }
        }
    }

    /// Returns the losses that a witness has not counted, although it has compared the master.
    pub fn check(&mut self, servers: &Servers, processes: &[Option<Arc<Process>>]) -> Vec<String> {
        let mut wrong = Vec::new();
        self.0.retain(|Expected { lost, history, witnesses }| {
            let BucketState { floor, losses, .. } = servers.bucket(lost.bucket);
            let serving = servers.history_of(lost.bucket);
            if *history != serving || u64::from(lost.losses) < losses {
                return false;
            }
            let Some(floor) = floor else { return true };
            let mut living = processes.iter().flatten();
            let missed = living.find(|process| {
                witnesses.contains(&process.generation)
                    && process.store.epoch_floor(&lost.app) == floor
            });
            wrong.extend(missed.map(|process| {
                let (app, place) = (&lost.app, process.place);
                format!("replica {place} has seen what {app} lost, and no loss is counted")
            }));
            missed.is_none()
        });
        wrong
    }
}

//! All clients of a run.

use anyhow::Result;
use bellwether::domain::name::{AppName, UnitName};

use crate::host::Host;
use crate::network::Network;
use crate::process::Processes;
use crate::randomness::Dice;

use super::forbidden::{self, Repeater};
use super::operator::{Hand, come_and_go};
use super::watcher::Watcher;
use super::worker::Worker;
use super::{Client, marker, quorum};

/// Starts the clients. Returns the number of the last one.
pub fn start_all(
    seed: u64,
    network: &Network,
    processes: &Processes,
    clients: &Host,
) -> Result<usize> {
    let mut number = 0;
    let mut mk_client = || {
        number += 1;
        let dice = Dice::new(seed, 100 + number as u64);
        Client { number, network: network.clone(), dice, processes: processes.clone() }
    };
    let handle = clients.handle();
    for app in ["a", "b"] {
        let name = AppName::new("", app).map_err(|(_, error)| error)?;
        for unit in 0..3 {
            let unit = UnitName::new(&format!("{app}/{unit}"))?;
            handle.spawn(Worker::new(mk_client(), name.clone(), unit).run());
        }
        for unit in 0..2 {
            let unit = UnitName::new(&format!("{app}/{unit}"))?;
            handle.spawn(Hand::new(mk_client(), name.clone(), unit).run());
        }
    }
    for app in 0..8 {
        let name = AppName::new("", &format!("c{app}")).map_err(|(_, error)| error)?;
        handle.spawn(come_and_go(mk_client(), name));
    }
    for _ in 0..3 {
        handle.spawn(Watcher::new(mk_client()).run());
    }
    for app in ["b", "d0"] {
        let name = AppName::new("", app).map_err(|(_, error)| error)?;
        handle.spawn(quorum::configure(mk_client(), name));
    }
    for app in ["a", "b", "c0"] {
        let name = AppName::new("", app).map_err(|(_, error)| error)?;
        handle.spawn(marker::set_and_remove(mk_client(), name));
    }
    for app in ["a", "b"] {
        let name = AppName::new("", app).map_err(|(_, error)| error)?;
        handle.spawn(forbidden::ask(mk_client(), name));
    }
    let name = AppName::new("", "d0").map_err(|(_, error)| error)?;
    handle.spawn(Repeater::new(mk_client(), name, UnitName::new("d0/0")?).run());
    Ok(number)
}

//! What all replicas share: the servers of Redis, or the disk of one process.

pub mod app;
mod damage;
mod disk;
mod mirror;
mod shared;
pub mod time;
mod witness;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::time::Timestamp;
use bellwether::store::redis::Durability;

use crate::judge::Judge;
use crate::randomness::Dice;

use app::App;

pub use damage::Reach;
pub use disk::{Disk, Found};
pub use mirror::Lost;
pub use shared::{BucketState, Servers, View};
pub use witness::{Witness, WitnessObserver};

/// The properties of a store that a run chooses.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Whether several replicas share the store, which is Redis then; otherwise it is a disk.
    pub is_shared: bool,
    /// The number of buckets.
    pub buckets: u16,
    /// The number of masters of Redis. Several are a cluster.
    pub shards: usize,
    /// What a commit reaches before it is acknowledged.
    pub durability: Durability,
    /// How long an effect takes from a master of Redis to its replica, in milliseconds.
    pub lag: u64,
}

/// The store.
pub enum Server {
    /// The disk of one process.
    Disk(Disk),
    /// The servers of Redis.
    Redis(Box<Servers>),
}

impl Server {
    /// Returns an empty store.
    ///
    /// # Errors
    ///
    /// If this process cannot have a directory for a disk.
    pub fn new(shape: Shape, time: Timestamp, judge: Arc<Mutex<Judge>>) -> std::io::Result<Server> {
        Ok(match shape.is_shared {
            true => Server::Redis(Box::new(Servers::new(shape, time, judge))),
            false => Server::Disk(Disk::new(time, judge)?),
        })
    }

    /// Returns the disk.
    ///
    /// # Panics
    ///
    /// If the store is Redis.
    pub fn disk(&mut self) -> &mut Disk {
        match self {
            Server::Disk(disk) => disk,
            Server::Redis(_) => panic!("this run has no disk"),
        }
    }

    /// Returns the servers of Redis.
    ///
    /// # Panics
    ///
    /// If the store is a disk.
    pub fn redis(&mut self) -> &mut Servers {
        match self {
            Server::Redis(servers) => servers,
            Server::Disk(_) => panic!("this run has no Redis"),
        }
    }

    /// Moves the time of the world forward.
    pub fn advance(&mut self, millis: u64) {
        match self {
            Server::Disk(disk) => disk.advance(millis),
            Server::Redis(servers) => servers.advance(millis),
        }
    }

    /// Returns the applications with their records.
    pub fn apps(&self) -> BTreeMap<AppName, App> {
        match self {
            Server::Disk(disk) => disk.apps(),
            Server::Redis(servers) => servers.apps(),
        }
    }

    /// Returns the time of the store, the outages, and the latest sign of life.
    pub fn moment(&self) -> (Timestamp, Arc<Outages>, Timestamp) {
        match self {
            Server::Disk(disk) => disk.moment(),
            Server::Redis(servers) => servers.moment(),
        }
    }

    /// Returns whether writes are refused for lack of space.
    pub fn is_full(&self) -> bool {
        match self {
            Server::Disk(disk) => disk.is_full(),
            Server::Redis(servers) => servers.is_full(),
        }
    }

    /// Sets whether writes are refused for lack of space.
    pub fn set_full(&mut self, is_full: bool) {
        match self {
            Server::Disk(disk) => disk.set_full(is_full),
            Server::Redis(servers) => servers.set_full(is_full),
        }
    }

    /// Sets the clock of the store ahead, or back, in milliseconds.
    pub fn set_clock(&mut self, by: i64) {
        match self {
            Server::Disk(disk) => disk.set_clock(by),
            Server::Redis(servers) => servers.set_clock(by),
        }
    }

    /// Ends the connections of a process that is killed.
    pub fn on_kill(&mut self, generation: u64, dice: &mut Dice) {
        if let Server::Redis(servers) = self {
            servers.on_kill(generation, dice);
        }
    }
}

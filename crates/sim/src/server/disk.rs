//! The disk of a process: the files of its store in memory, and what must be in them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::time::Timestamp;
use bellwether::store::embedded::stepwise;

use crate::judge::Judge;
use crate::lock;
use crate::randomness::Dice;

use super::app::App;
use super::damage::{Damage, Reach};
use super::witness::Witness;

/// Steps of the disk that a process may still make when it is killed: the end comes between two of
/// them.
const STEPS_MAX: u64 = 24;
/// A disk without room, and one that fails: the numbers of the errors.
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// The data directory, within the directory in which this process works.
const DIRECTORY: &str = "data";

/// The directory in which this process works, and which ends with it. So the paths in errors, which
/// the trace has, are the same in each run.
struct WorkingDirectory(PathBuf);

impl WorkingDirectory {
    fn enter() -> std::io::Result<WorkingDirectory> {
        let name = format!("bellwether-sim-{}", std::process::id());
        let directory = WorkingDirectory(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&directory.0)?;
        std::env::set_current_dir(&directory.0)?;
        Ok(directory)
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The disk.
pub struct Disk {
    /// Has the file of the signs of life. Its database is only the one of an empty store.
    _directory: WorkingDirectory,
    files: stepwise::Disk,
    /// What the store must have.
    pub witness: Arc<Mutex<Witness>>,
    /// The time of the world, and by how much the clock of the machine is ahead, in milliseconds.
    time: Timestamp,
    ahead: i64,
    is_full: bool,
    fails_database: bool,
    damage: Option<Damage>,
}

/// What a process finds when it starts.
pub struct Found {
    /// The files of the database and the log.
    pub files: stepwise::Disk,
    /// The directory with all others.
    pub directory: PathBuf,
    /// Whether the log is damaged.
    pub is_damaged: bool,
    /// The time of the clock of the machine.
    pub wall: Timestamp,
    /// What must be in the files.
    pub witness: Arc<Mutex<Witness>>,
}

impl Disk {
    /// Returns an empty disk.
    ///
    /// # Errors
    ///
    /// If this process cannot have a directory.
    pub fn new(time: Timestamp, judge: Arc<Mutex<Judge>>) -> std::io::Result<Disk> {
        Ok(Disk {
            _directory: WorkingDirectory::enter()?,
            files: stepwise::Disk::default(),
            witness: Arc::new(Mutex::new(Witness::new(time, judge))),
            time,
            ahead: 0,
            is_full: false,
            fails_database: false,
            damage: None,
        })
    }

    /// Moves the time of the world forward.
    pub fn advance(&mut self, millis: u64) {
        self.time = Timestamp::new(self.time.millis() + millis);
        lock(&self.witness).time = self.time;
    }

    /// Sets the clock of the machine ahead, or back, in milliseconds. A process that runs does not
    /// look at it again.
    pub fn set_clock(&mut self, by: i64) {
        self.ahead += by;
    }

    /// Returns what a process finds when it starts.
    pub fn open(&self) -> Found {
        Found {
            files: self.files.clone(),
            directory: PathBuf::from(DIRECTORY),
            is_damaged: self.damage.is_some(),
            wall: Timestamp::new(self.time.millis().saturating_add_signed(self.ahead)),
            witness: self.witness.clone(),
        }
    }

    /// Returns the applications with their records.
    pub fn apps(&self) -> BTreeMap<AppName, App> {
        lock(&self.witness).apps().clone()
    }

    /// Returns the time of the store, the outages, and the latest sign of life.
    pub fn moment(&self) -> (Timestamp, Arc<Outages>, Timestamp) {
        lock(&self.witness).moment()
    }

    /// Returns whether writes fail for lack of space. While the database alone fails, the log takes
    /// commits until the process finds out.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Sets whether writes fail for lack of space.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
        self.set_failures();
    }

    /// Sets whether writes to the database fail.
    pub fn fail_database(&mut self, fails: bool) {
        self.fails_database = fails;
        self.set_failures();
    }

    /// Lets the next sync report an error although it succeeds.
    pub fn lie_once(&self) {
        self.files.lie_once();
    }

    /// Damages the last group of the log, if there is one in reach. Returns whether there is.
    pub fn damage(&mut self, reach: Reach) -> bool {
        if reach == Reach::Any && !lock(&self.witness).is_served {
            return false;
        }
        self.damage = self.damage.take().or_else(|| Damage::make(&self.files, reach));
        self.damage.is_some()
    }

    /// Undoes the damage.
    pub fn mend(&mut self) {
        if let Some(damage) = self.damage.take() {
            damage.mend(&self.files);
        }
    }

    fn set_failures(&self) {
        self.files.fail(self.is_full.then_some(ENOSPC));
        self.files.fail_database(self.fails_database.then_some(EIO));
    }

    /// Prepares the end of the process between two steps of the disk that it may still make. No
    /// client receives what it acknowledges until then.
    pub fn begin_kill(&self, dice: &mut Dice) {
        let mut witness = lock(&self.witness);
        (witness.is_over, witness.is_served) = (true, false);
        drop(witness);
        self.files.freeze_after(usize::try_from(dice.between(0, STEPS_MAX)).unwrap_or_default());
    }

    /// Leaves what a kill leaves, or a loss of power, after which each sector that was not synced
    /// may be there or not.
    pub fn end_kill(&mut self, loses_power: bool, dice: &mut Dice) {
        let frozen = self.files.frozen(|| dice.per_mille(500));
        let image = match (frozen, loses_power) {
            (Some((killed, _)), false) => killed,
            (Some((_, lost)), true) => lost,
            (None, false) => self.files.after_kill(),
            (None, true) => self.files.after_power_loss(|| dice.per_mille(500)),
        };
        // What the process does at its end does not reach these files.
        self.files = stepwise::Disk::of(&image);
        self.set_failures();
    }
}

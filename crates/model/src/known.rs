//! The records of an application as one value that is compared and hashed cheaply.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bellwether::domain::app::{AppState, Head};
use bellwether::domain::apply::apply;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::Request;
use bellwether::domain::data_loss::mark_uncertain;
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{AppName, UnitName};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::replay::Records;
use bellwether::domain::request::{Outcome, Remembered};
use bellwether::domain::revision::Revision;
use bellwether::domain::status::{Status, StatusKey};
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::Unit;

/// The records that the models use.
#[derive(Debug, Clone)]
struct Stored {
    epoch_floor: u64,
    head: Arc<Head>,
    units: BTreeMap<UnitName, Box<Unit>>,
    statuses: BTreeMap<Arc<StatusKey>, Arc<Status>>,
    requests: BTreeMap<Arc<str>, Box<Remembered>>,
    data: BTreeMap<Arc<str>, Bytes>,
}

/// A state of the application, loaded from its records.
#[derive(Clone)]
pub struct Known(Arc<(Stored, AppState, u64)>);

impl Known {
    /// Returns the state before the first commit.
    pub fn unknown() -> Known {
        Known::of(Stored {
            epoch_floor: 0,
            head: Arc::new(Head::empty(Revision(0))),
            units: BTreeMap::new(),
            statuses: BTreeMap::new(),
            requests: BTreeMap::new(),
            data: BTreeMap::new(),
        })
    }

    fn of(stored: Stored) -> Known {
        let records = Records {
            epoch_floor: stored.epoch_floor,
            units: stored.units.iter().map(|(k, v)| (k.clone(), (**v).clone())).collect(),
            statuses: stored.statuses.iter().map(|(k, v)| ((**k).clone(), (**v).clone())).collect(),
            requests: stored.requests.iter().map(|(k, v)| (k.clone(), (**v).clone())).collect(),
            data: stored.data.clone().into_iter().collect(),
            ..Records::of_head((*stored.head).clone())
        };
        let hash = hash_of(&stored);
        Known(Arc::new((stored, AppState::load(app_name(), records), hash)))
    }

    /// Returns the state with the rules of the server.
    pub fn state(&self) -> &AppState {
        &self.0.1
    }

    /// Returns the head.
    pub fn head(&self) -> &Arc<Head> {
        &self.0.0.head
    }

    /// Returns the state as a replica reads it from a master with this floor.
    pub fn read_under(&self, epoch_floor: u64) -> Known {
        Known::of(Stored { epoch_floor, ..self.0.0.clone() })
    }

    /// Returns the state with another head.
    pub fn with_head(&self, head: Head) -> Known {
        Known::of(Stored { head: Arc::new(head), ..self.0.0.clone() })
    }

    /// Returns whether a request has an answer.
    pub fn has_answered(&self, id: &str) -> bool {
        self.0.0.requests.contains_key(id)
    }

    /// Returns the state after a transition.
    pub fn after(&self, transition: &Transition) -> Known {
        let mut stored = self.0.0.clone();
        stored.head = transition.head.clone();
        for write in &transition.writes {
            match write {
                Write::Unit(k, v) => put(&mut stored.units, k, v.as_ref()),
                Write::Status(k, v) => put(&mut stored.statuses, k, v.as_ref()),
                Write::Request(k, v) => put(&mut stored.requests, k, v.as_ref()),
                Write::Data(k, v) => put(&mut stored.data, k, v.as_ref()),
                Write::Fault(..) | Write::Operation(..) | Write::Payload(..) | Write::Mark(..) => {}
            }
        }
        Known::of(stored)
    }

    /// Decides a request as a replica does.
    pub fn decide(
        &self,
        losses: u32,
        now: Timestamp,
        request: Option<&Request>,
    ) -> (Transition, Option<Result<Outcome, Rejected>>) {
        let limits = Limits::default();
        let mut draft = Draft::new(self.state(), &limits, now);
        mark_uncertain(&mut draft, losses);
        expire(&mut draft);
        let outcome = request.map(|request| apply(&mut draft, request));
        (draft.finish(), outcome)
    }
}

fn put<K: Clone + Ord, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value.clone())),
        None => drop(map.remove(key)),
    }
}

/// Returns the name of the one application.
pub fn app_name() -> AppName {
    AppName::new("", "web").expect("a valid name")
}

/// Returns the name of a unit.
pub fn unit_name(number: u8) -> UnitName {
    UnitName::new(&format!("web/{number}")).expect("a valid name")
}

/// Hashes a value by its text.
pub fn hash_of(value: &impl fmt::Debug) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(format!("{value:?}").as_bytes());
    hasher.finish()
}

impl PartialEq for Known {
    fn eq(&self, other: &Known) -> bool {
        self.0.2 == other.0.2
    }
}

impl Eq for Known {}

impl Hash for Known {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.2.hash(hasher);
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.head();
        let messages = self.0.0.statuses.values().map(|status| &*status.report.message);
        let (revision, level) = (head.revision, head.summary.level);
        write!(f, "revision {revision} {level:?} {:?}", messages.collect::<Vec<_>>())
    }
}

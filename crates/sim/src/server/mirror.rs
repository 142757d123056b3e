//! What the serving masters of Redis have, decoded as a replica reads it, and the checks of each
//! commit that it executes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::store::moment::from_text;
use bellwether::store::redis::inspect::{Keys, app_of, newest, read_app, writes};
use bellwether::store::{Bucket, Position};

use crate::judge::Judge;
use crate::redis::{NodeId, Object, Reply, State, Text};

use super::app::App;
use super::time::Answer;

/// Commits under way whose transitions are known: far more than a run has at once.
const MARKS_MAX: usize = 20_000;

/// A commit by its writer and number.
type Mark = (Text, Text);

/// An application that another master does not have as its former master had it.
#[derive(Debug, Clone)]
pub struct Lost {
    /// The application.
    pub app: AppName,
    /// Its bucket.
    pub bucket: Bucket,
    /// Its position on the former master.
    pub position: Position,
    /// The loss count of the bucket on the new master.
    pub losses: u32,
}

/// An application as it is stored.
#[derive(Debug, Clone, Default, PartialEq)]
struct Raw {
    head: Text,
    /// The last writers.
    marks: Text,
    /// The newest record of each field, from blocks or not.
    records: BTreeMap<Text, Text>,
}

impl Raw {
    /// Returns whether a commit has changed nothing. Other processes may follow the application
    /// between a commit and its repeat, which adds their marks.
    fn is_same_after(&self, (writer, sequence): &Mark, known: &Raw) -> bool {
        let mark = [writer, &b":"[..], sequence, b":"].concat();
        let is_repeat = known.marks.split(|byte| *byte == b';').any(|one| one.starts_with(&mark));
        let is_same = self.head == known.head && self.records == known.records;
        is_same && (is_repeat || self.marks == known.marks)
    }
}

/// The decoded state of the serving masters.
pub struct Mirror {
    keys: Keys,
    /// The serving master of each bucket.
    masters: Vec<NodeId>,
    /// The master that has the clock.
    pub clock_master: NodeId,
    apps: BTreeMap<AppName, App>,
    /// Each application as it is stored.
    raw: BTreeMap<AppName, Raw>,
    transitions: BTreeMap<Mark, Arc<Transition>>,
    /// The time of the world.
    pub time: Timestamp,
    judge: Arc<Mutex<Judge>>,
}

impl Mirror {
    /// Returns that of an empty store.
    pub fn new(buckets: u16, time: Timestamp, judge: Arc<Mutex<Judge>>) -> Mirror {
        Mirror {
            keys: Keys::new(buckets),
            masters: vec![0; usize::from(buckets)],
            clock_master: 0,
            apps: BTreeMap::new(),
            raw: BTreeMap::new(),
            transitions: BTreeMap::new(),
            time,
            judge,
        }
    }

    /// Returns the serving master of a bucket.
    pub fn master(&self, bucket: Bucket) -> NodeId {
        self.masters[usize::from(bucket.0)]
    }

    /// Returns the applications.
    pub fn apps(&self) -> &BTreeMap<AppName, App> {
        &self.apps
    }

    /// Records the transition of a commit that is sent.
    pub fn note(&mut self, mark: Mark, transition: Arc<Transition>) {
        if MARKS_MAX <= self.transitions.len() {
            self.transitions.clear();
        }
        self.transitions.insert(mark, transition);
    }

    /// Checks the call of a script that a server has executed.
    pub fn on_call(&mut self, node: NodeId, state: &State, command: &[Text], reply: &Reply) {
        let [_, _, count, rest @ ..] = command else { return };
        let count = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok());
        let Some((keys, arguments)) = count.and_then(|count| rest.split_at_checked(count)) else {
            return;
        };
        if let ([app, _], [_, _, _, _, _, _, _, _, ..], Reply::Number(1)) = (keys, arguments, reply)
        {
            return self.on_fold(node, state, app);
        }
        let Reply::Array(reply) = reply else { return };
        match (keys, arguments) {
            ([_, _, _, _, _, _, _], [name, _, writer, sequence, ..])
                if reply.first() == Some(&Reply::Number(1)) =>
            {
                let mark = (writer.clone(), sequence.clone());
                let is_served = |app: &AppName| self.master(self.keys.bucket_of(app)) == node;
                if let Some(app) = app_of(name).filter(is_served) {
                    self.on_commit(state, &app, &mark);
                }
            }
            ([key], [known, ..])
                if node == self.clock_master && *key == self.keys.clock().into_bytes() =>
            {
                self.on_time(known == b"0", reply);
            }
            _ => {}
        }
    }

    /// Checks that a fold of blocks has changed no record.
    fn on_fold(&mut self, node: NodeId, state: &State, key: &Text) {
        let is_it = |app: &&AppName| self.keys.app(app).as_bytes() == key;
        let Some(app) = self.apps.keys().find(is_it).cloned() else { return };
        if self.master(self.keys.bucket_of(&app)) != node {
            return;
        }
        let found = self.read(state, &app);
        let before = self.raw.get(&app).map(|raw| &raw.records);
        let is_same = found.as_ref().map(|(raw, _)| &raw.records) == before;
        let mut judge = crate::lock(&self.judge);
        judge.counts.folds += 1;
        if !is_same {
            judge.accuse(format!("a fold has changed the records of {app}"));
        }
    }

    fn on_time(&self, is_start: bool, reply: &[Reply]) {
        let [Reply::Bulk(micros), _, Reply::Bulk(outages)] = reply else { return };
        let time = Timestamp::new(number(micros) / 1000);
        let outages = Arc::new(from_text(&String::from_utf8_lossy(outages)));
        let mut judge = crate::lock(&self.judge);
        judge.uptime.on_time(&Answer { time, outages });
        if is_start {
            // A process that starts takes over the clock, unless another one knows the time.
            judge.allow_ahead(time.since(self.time));
        }
    }

    fn on_commit(&mut self, state: &State, app: &AppName, mark: &Mark) {
        let bucket = self.keys.bucket_of(app);
        let found = self.read(state, app);
        // The answer to a repeat, or nothing to write.
        let is_same = match (&found, self.raw.get(app)) {
            (Some((raw, _)), Some(known)) => raw.is_same_after(mark, known),
            (found, known) => found.is_none() && known.is_none(),
        };
        if is_same {
            return;
        }
        let judge = self.judge.clone();
        let mut judge = crate::lock(&judge);
        let before = self.apps.get(app).cloned();
        let transition = self.transitions.get(mark).cloned();
        if let Some(transition) = &transition {
            let wrong = judge.refusals.on_applied(transition);
            wrong.into_iter().for_each(|what| judge.accuse(what));
            judge.on_commit(before.as_ref(), transition, self.time);
        }
        if let Some((raw, after)) = found {
            let was = before.as_ref().map(|before| before.position);
            if was != Some(after.position) {
                let floor = self.number_of(state, bucket, b"counts_above");
                judge.on_position(app, (bucket, floor), after.position, &after.head);
            }
            let known = self.raw.get(app).map(|raw| raw.records.clone()).unwrap_or_default();
            let expected = transition.map(|transition| applied(known, &transition));
            if let Some(expected) = expected.filter(|expected| *expected != raw.records) {
                let (is, expected) = (shown(&raw.records), shown(&expected));
                judge.accuse(format!("a commit of {app} is stored as {is}, not as {expected}"));
            }
            self.apps.insert(app.clone(), after);
            self.raw.insert(app.clone(), raw);
        }
        drop(judge);
        self.prune(state, bucket);
    }

    /// Removes the applications that a master has pruned.
    fn prune(&mut self, state: &State, bucket: Bucket) {
        let heads = hash(state, &self.keys.heads(bucket));
        let (keys, raw) = (&self.keys, &mut self.raw);
        let mut judge = crate::lock(&self.judge);
        self.apps.retain(|app, _| {
            let name = app.to_string().into_bytes();
            let is_there = keys.bucket_of(app) != bucket
                || heads.is_some_and(|heads| heads.contains_key(&name));
            if !is_there {
                raw.remove(app);
                judge.on_pruned(app);
            }
            is_there
        });
    }

    /// Takes over another master of some buckets, or the same one without its last writes. Returns
    /// what it does not have as it was. `is_kept` says that it must have what was acknowledged.
    pub fn take_master(
        &mut self,
        buckets: &[Bucket],
        (master, state): (NodeId, &State),
        is_kept: bool,
    ) -> Vec<Lost> {
        let keys = Keys::new(u16::try_from(self.masters.len()).unwrap_or(u16::MAX));
        let is_of = |app: &AppName| buckets.contains(&keys.bucket_of(app));
        let before: BTreeMap<AppName, App> =
            self.apps.extract_if(.., |app, _| is_of(app)).collect();
        let raw: BTreeMap<AppName, Raw> = self.raw.extract_if(.., |app, _| is_of(app)).collect();
        for &bucket in buckets {
            self.masters[usize::from(bucket.0)] = master;
            let heads = hash(state, &self.keys.heads(bucket)).into_iter().flatten();
            let names: Vec<AppName> = heads.filter_map(|(name, _)| app_of(name)).collect();
            for app in names {
                if let Some((raw, found)) = self.read(state, &app) {
                    self.apps.insert(app.clone(), found);
                    self.raw.insert(app, raw);
                }
            }
        }
        let head = |raw: Option<&Raw>| raw.map(|raw| raw.head.clone());
        let is_other = |app: &&AppName| head(raw.get(*app)) != head(self.raw.get(*app));
        let lost: Vec<AppName> = before
            .keys()
            .chain(self.apps.keys().filter(|app| is_of(app) && !before.contains_key(*app)))
            .filter(is_other)
            .cloned()
            .collect();
        let mut judge = crate::lock(&self.judge);
        judge.on_master(lost.iter(), &self.apps, is_kept);
        for &bucket in buckets {
            let last = Position(self.number_of(state, bucket, b"last"));
            let is_of = |app: &AppName| keys.bucket_of(app) == bucket;
            judge.restart_positions((bucket, last), is_of, &self.apps);
        }
        let lost = lost.into_iter().map(|app| {
            let bucket = self.keys.bucket_of(&app);
            let position = before.get(&app).map_or(Position(0), |app| app.position);
            let losses = self.number_of(state, bucket, b"losses");
            Lost { app, bucket, position, losses: u32::try_from(losses).unwrap_or(u32::MAX) }
        });
        lost.collect()
    }

    /// Returns a number of the state of a bucket.
    pub fn number_of(&self, state: &State, bucket: Bucket, field: &[u8]) -> u64 {
        let value = hash(state, &self.keys.state(bucket)).and_then(|hash| hash.get(field));
        value.map(|value| number(value)).unwrap_or_default()
    }

    /// Returns whether a process has noted in a bucket that this master serves.
    pub fn is_noted(&self, state: &State, bucket: Bucket) -> bool {
        let noted = hash(state, &self.keys.state(bucket)).and_then(|hash| hash.get(&b"master"[..]));
        noted.is_some_and(|noted| *noted == state.history.as_bytes())
    }

    /// Returns the time of the store as its next answer would have it, the outages, and the latest
    /// sign of life. `micros` is the clock of the master.
    pub fn moment(&self, state: &State, micros: u64) -> (Timestamp, Arc<Outages>, Timestamp) {
        let clock = hash(state, &self.keys.clock());
        let field = |name: &[u8]| {
            let value = clock.and_then(|clock| clock.get(name));
            value.map(|value| number(value)).unwrap_or_default()
        };
        let passed = micros.saturating_sub(field(b"since"));
        let behind = field(b"behind").saturating_sub(passed / 10);
        let ahead = field(b"ahead").saturating_sub(passed / 100);
        let now = Timestamp::new((micros + behind).saturating_sub(ahead) / 1000);
        let outages = clock.and_then(|clock| clock.get(&b"outages"[..]));
        let outages = outages.map(|text| from_text(&String::from_utf8_lossy(text)));
        let alive = Timestamp::new(field(b"alive") / 1000);
        let life = bellwether::store::moment::Life {
            alive,
            outages: Arc::new(outages.unwrap_or_default()),
        };
        (now, life.outages_at(now), alive)
    }

    fn read(&self, state: &State, app: &AppName) -> Option<(Raw, App)> {
        let heads = hash(state, &self.keys.heads(self.keys.bucket_of(app)))?;
        let head = heads.get(app.to_string().as_bytes())?;
        let fields = hash(state, &self.keys.app(app));
        let marks = fields.and_then(|fields| fields.get(&b"w"[..])).cloned().unwrap_or_default();
        let pairs = || {
            let pairs = fields.into_iter().flatten();
            pairs.map(|(field, value)| (field.as_slice(), value.as_slice()))
        };
        match read_app(app, head, pairs()) {
            Ok((position, found)) => {
                let raw = Raw { head: head.clone(), marks, records: newest(pairs()) };
                Some((raw, App::of_records(position, found)))
            }
            Err(error) => {
                crate::lock(&self.judge).accuse(format!("{app} cannot be read: {error}"));
                None
            }
        }
    }
}

/// Returns the records of an application after a transition.
fn applied(before: BTreeMap<Text, Text>, transition: &Transition) -> BTreeMap<Text, Text> {
    let mut records = before;
    if transition.is_deletion() {
        // The answers to requests stay.
        records.retain(|field, _| field.starts_with(b"r"));
    }
    for (field, value) in writes(transition) {
        match value {
            Some(value) => drop(records.insert(field, value)),
            None => drop(records.remove(&field)),
        }
    }
    records
}

fn shown(records: &BTreeMap<Text, Text>) -> String {
    let each = records
        .iter()
        .map(|(field, value)| format!("{}={}", field.escape_ascii(), value.escape_ascii()));
    each.collect::<Vec<_>>().join(" ")
}

fn hash<'a>(state: &'a State, key: &str) -> Option<&'a BTreeMap<Text, Text>> {
    match state.keys.get(key.as_bytes())? {
        Object::Hash(hash) => Some(hash),
        _ => None,
    }
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

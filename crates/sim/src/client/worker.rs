//! A worker: it keeps a session, reports numbered statuses, leads its application from time to
//! time, and answers the questions of the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::command::{Command, NewStatus};
use bellwether::domain::data::DataPatch;
use bellwether::domain::leadership::Claim;
use bellwether::domain::level::Level;
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::need::{Need, Needs};
use bellwether::domain::revision::Revision;
use bellwether::domain::stated::index::RecordKey;
use bellwether::domain::status::report::{Details, Report};
use bellwether::domain::status::{Kind, StatusKey};
use bellwether::domain::unit::{Newcomer, Reporter};
use bellwether::session::{Hello, Inbound, Outbound, Question, Welcome};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use crate::judge::{Sent, number};
use crate::lock;
use crate::network::Link;
use crate::process::{FromWorker, ToClient, ToWorker};

use super::Client;

/// Without an acknowledgement for so long a worker connects again.
const PATIENCE: Duration = Duration::from_secs(12);

/// Applications that others need; some of them do not exist in every run.
const APPLICATIONS: [&str; 3] = ["a", "b", "none"];

/// The statuses of a unit that reports many at once: Redis has them in blocks.
const MANY_MIN: u64 = 16;
const MANY_MAX: u64 = 24;

const LEVELS: [Level; 4] = [Level::Active, Level::Waiting, Level::Blocked, Level::Maintenance];

/// A worker.
pub struct Worker {
    client: Client,
    app: AppName,
    unit: UnitName,
    /// The incarnation to continue; `None` after a restart.
    incarnation: Option<u64>,
    /// The number of the last report; grows over all sessions.
    report: u64,
    /// The epoch of its lease.
    leads: Option<u64>,
    wants_to_lead: bool,
    /// Keys that a late call may still write.
    calls: u64,
    /// Earlier attempts of an answered call may still arrive. Their answer repeats the first one
    /// until the application loses a commit, and perhaps that answer.
    late_since: Option<Sent>,
    /// Whether the last report of a key had needs.
    needy: BTreeMap<PartName, bool>,
}

/// A session as its worker sees it.
struct Connection {
    place: usize,
    link: Link,
    words: mpsc::UnboundedReceiver<ToClient>,
    sequence: u64,
    /// Reports without an acknowledgement.
    open: VecDeque<(u64, PartName, u64, Sent)>,
    last_word: Instant,
    heartbeat: Duration,
}

impl Worker {
    /// Returns a worker of a unit.
    pub fn new(client: Client, app: AppName, unit: UnitName) -> Worker {
        let wants_to_lead = client.number.is_multiple_of(2);
        let (incarnation, leads) = (None, None);
        let (report, calls, late_since) = (0, 0, None);
        Worker {
            client,
            app,
            unit,
            incarnation,
            report,
            leads,
            wants_to_lead,
            calls,
            late_since,
            needy: BTreeMap::new(),
        }
    }

    /// Works for ever.
    pub async fn run(mut self) {
        loop {
            if let Some(connection) = self.connect().await {
                self.work(connection).await;
            }
            self.leads = None;
            if self.client.dice.per_mille(200) {
                self.incarnation = None;
            }
            self.rest().await;
        }
    }

    /// Waits before the next session. A unit that no operator acts for is away for minutes now and
    /// then, so that it is lost, and may not return.
    async fn rest(&mut self) {
        let is_alone = self.unit.as_str().ends_with("/2");
        if !is_alone || !self.client.dice.per_mille(150) {
            let pause = self.client.dice.between(50, 3000);
            return sleep(Duration::from_millis(pause)).await;
        }
        let member = (self.app.clone(), self.unit.clone());
        lock(&self.client.network.judge).on_silence(member.clone());
        self.client.note(format_args!("is away"));
        if self.client.dice.per_mille(200) {
            return std::future::pending().await;
        }
        let pause = self.client.dice.between(60_000, 600_000);
        sleep(Duration::from_millis(pause)).await;
        lock(&self.client.network.judge).on_return(member);
    }

    async fn connect(&mut self) -> Option<Connection> {
        let place = self.client.pick();
        let (end, words) = mpsc::unbounded_channel();
        let link = self.client.network.new_link();
        let at = (link, self.client.node());
        let (unit, incarnation) = (self.unit.clone(), self.incarnation);
        let who = Newcomer { unit, incarnation, stateless: false, labels: BTreeMap::new() };
        let hello = Hello { app: self.app.clone(), who, may_read: Arc::new(|_| true) };
        let opened = self.client.call(place, "open", move |process| process.open(hello, at, end));
        let opened = opened.await;
        let Some(Ok(Welcome { incarnation, heartbeat_interval, .. })) = opened else {
            let refused = opened.and_then(Result::err).map(|error| error.to_string());
            self.client.note(format_args!("not connected: {refused:?}"));
            if refused.is_some() {
                self.incarnation = None;
            }
            self.client.network.cut(link);
            return None;
        };
        self.incarnation = Some(incarnation);
        let (last_word, heartbeat) = (Instant::now(), heartbeat_interval);
        let open = VecDeque::new();
        Some(Connection { place, link, words, sequence: 0, open, last_word, heartbeat })
    }

    async fn work(&mut self, mut connection: Connection) {
        let lifetime = Duration::from_secs(self.client.dice.between(5, 240));
        let ends = Instant::now() + lifetime;
        if self.wants_to_lead {
            let claim = Command::ClaimLeadership(self.reporter(), None);
            self.say(&mut connection, claim, None);
        }
        let mut beat = Instant::now();
        let mut act = Instant::now();
        loop {
            let now = Instant::now();
            if ends <= now {
                break self.leave(&connection);
            }
            if connection.last_word + PATIENCE < now && !connection.open.is_empty() {
                self.client.note(format_args!("no answer"));
                break self.client.network.cut(connection.link);
            }
            if beat <= now {
                self.send(&connection, Inbound::Heartbeat);
                beat = now + connection.heartbeat / 2;
            }
            if act <= now {
                self.act(&mut connection).await;
                act = now + Duration::from_millis(self.client.dice.between(100, 6000));
            }
            match timeout_at(beat.min(act).min(ends), connection.words.recv()).await {
                Ok(Some(ToClient::Session(word))) => {
                    connection.last_word = Instant::now();
                    if !self.hear(&mut connection, word) {
                        break;
                    }
                }
                Ok(Some(ToClient::Watch(_))) | Err(_) => {}
                Ok(None) => break,
            }
        }
    }

    /// Ends a session: with a goodbye, without one, or as a process that is killed.
    fn leave(&mut self, connection: &Connection) {
        match self.client.dice.index(3) {
            0 => self.send(connection, Inbound::Goodbye { removed: false }),
            1 => self.client.network.cut(connection.link),
            _ => {
                self.incarnation = None;
                let link = connection.link;
                let at = (connection.place, link);
                self.client.tell(at, "close", move |process| process.close(link));
            }
        }
    }

    fn send(&self, connection: &Connection, word: FromWorker) {
        let (link, at) = (connection.link, (connection.place, connection.link));
        self.client.tell(at, "say", move |process| process.take(link, Some(word)));
    }

    fn say(&self, connection: &mut Connection, command: Command, answers: Option<u64>) {
        connection.sequence += 1;
        let seq = connection.sequence;
        self.send(connection, Inbound::Command { seq, command, answers });
    }

    fn reporter(&self) -> Reporter {
        Reporter::new(self.unit.clone(), None)
    }

    fn status(&mut self, key: &PartName) -> NewStatus {
        self.report += 1;
        let level = LEVELS[self.client.dice.index(LEVELS.len())];
        let message = format!("report {}", self.report).into();
        let details = Details { needs: self.needs(), ..Details::default() };
        self.needy.insert(key.clone(), !details.needs.is_empty());
        let report = Report { level, message, ..Report::default() };
        let report = Arc::new(report.with(details));
        NewStatus { component: PartName::default(), key: key.clone(), report, observe_time: None }
    }

    /// Lets some reports have a ttl, and some an end.
    fn give_an_end(&mut self, status: &mut NewStatus) {
        let mut length = |per_mille, most| {
            let seconds = self.client.dice.between(5, most);
            self.client.dice.per_mille(per_mille).then(|| Duration::from_secs(seconds))
        };
        let (ttl, end_after) = (length(300, 40), length(300, 90));
        let report = Arc::make_mut(&mut status.report);
        let details = Details { end_after, ..report.details().clone() };
        *report = Report { ttl, ..report.clone() }.with(details);
    }

    /// Returns what a status needs: most need nothing, some another application.
    fn needs(&mut self) -> Needs {
        if !self.client.dice.per_mille(300) {
            return Needs::default();
        }
        let name = APPLICATIONS[self.client.dice.index(APPLICATIONS.len())];
        let levels = vec![Level::Active, LEVELS[self.client.dice.index(LEVELS.len())]];
        let other = AppName::new("", name).ok().filter(|other| *other != self.app);
        other.map(|other| Need::application(other, levels)).into_iter().collect()
    }

    /// Replaces all statuses that it was asked for by many others, some of them under other keys.
    fn replace_many(&mut self, connection: &mut Connection) {
        let count = self.client.dice.between(MANY_MIN, MANY_MAX);
        let key = |number| PartName::new(&format!("many-{number}")).unwrap_or_default();
        let statuses = (0..count).map(|number| self.status(&key(number))).collect();
        let command = Command::Replace(self.reporter(), None, statuses);
        self.say(connection, command, None);
    }

    async fn act(&mut self, connection: &mut Connection) {
        if self.unit.as_str() == "a/0" && self.client.dice.per_mille(300) {
            return self.replace_many(connection);
        }
        match self.client.dice.index(10) {
            0..5 => {
                let key = ["", "disk", "net"][self.client.dice.index(3)];
                let key = PartName::new(key).unwrap_or_default();
                let mut status = self.status(&key);
                self.give_an_end(&mut status);
                let sent = lock(&self.client.network.judge).sent(&self.app);
                let command = Command::Report(self.reporter(), Kind::Push, status);
                self.say(connection, command, None);
                connection.open.push_back((connection.sequence, key, self.report, sent));
            }
            5..8 => self.lead().await,
            8 => self.read_back().await,
            _ => {
                self.wants_to_lead = !self.wants_to_lead;
                let command = match self.wants_to_lead {
                    true => Command::ClaimLeadership(self.reporter(), None),
                    false => Command::StepBack(self.reporter()),
                };
                self.say(connection, command, None);
            }
        }
    }

    /// Writes the data of the application, on any replica.
    async fn lead(&mut self) {
        let Some(lease_epoch) = self.leads else { return };
        let place = self.client.pick();
        self.report += 1;
        let value = format!("{} {}", self.unit.as_str(), self.report).into_bytes();
        let set = [(Arc::from("key"), value.into())].into();
        let claim = Claim { unit: self.unit.clone(), lease_epoch, decided_outside: false };
        let command = Command::UpdateData(claim, DataPatch { set, ..DataPatch::default() });
        if let Some(Ok(_)) = self.client.apply(place, &self.app, None, command).await {
            let mut judge = lock(&self.client.network.judge);
            judge.leader_wrote(&self.app, lease_epoch, &self.unit);
        }
    }

    /// Reports by a call of its own with a request id, and reads the report on another replica.
    async fn read_back(&mut self) {
        let sent = lock(&self.client.network.judge).sent(&self.app);
        if self.late_since.is_some_and(|since| since.is_before_loss(sent)) {
            self.calls += 1;
            self.late_since = None;
        }
        let key = PartName::new(&format!("call-{}", self.calls)).unwrap_or_default();
        let status = self.status(&key);
        let (n, id) = (self.report, format!("{}-{}", self.unit.as_str(), self.report));
        let reporter = Reporter::new(self.unit.clone(), self.incarnation);
        let command = Command::Report(reporter, Kind::Push, status);
        let mut applied = None;
        for attempt in 0..3 {
            if 0 < attempt {
                self.late_since.get_or_insert(sent);
            }
            let place = self.client.pick();
            applied = self.client.commit(place, &self.app, Some(&id), command.clone()).await;
            if matches!(applied, Some((Ok(_), _))) {
                break;
            }
        }
        let Some((Ok(outcome), master)) = applied else {
            // The report may still arrive, after later ones: they get another key.
            self.calls += 1;
            self.late_since = None;
            return;
        };
        let member = (self.app.clone(), self.unit.clone());
        let judge = self.client.network.judge.clone();
        lock(&judge).report_acknowledged(member, key.clone(), n, sent);
        let found = self.read(key, outcome.revision).await;
        let Some((revision, found, read_from)) = found else { return };
        let mut judge = lock(&judge);
        judge.counts.reads += 1;
        // A replica without contact may have the same revision of a former master.
        let is_missing = found < n && master <= read_from;
        if judge.sent(&self.app) == sent && (revision < outcome.revision || is_missing) {
            let (app, unit) = (&self.app, &self.unit);
            let wanted = outcome.revision;
            judge.accuse(format!(
                "a read of {app} {unit:?} at {wanted} found report {found} at {revision}, not {n}"
            ));
        }
    }

    /// Reads a report on any replica. Returns the revision, the number of the report, and the epoch
    /// floor of the master that the replica has compared last.
    async fn read(&mut self, key: PartName, revision: Revision) -> Option<(Revision, u64, u64)> {
        let (place, app) = (self.client.pick(), self.app.clone());
        let component = PartName::default();
        let key = StatusKey::new(self.unit.clone(), component, key, Kind::Push);
        let read = self.client.call(place, "read", move |process| async move {
            let find = |state: &bellwether::domain::app::AppState| {
                let status = state.status(&key);
                let found = status.map_or(0, |status| number(status.report.message.as_bytes()));
                let master = process.store.epoch_floor(&app);
                (state.head().revision, found, master)
            };
            let read = process.aggregator.read(&app, revision, find);
            tokio::time::timeout(Duration::from_secs(5), read).await
        });
        read.await?.ok()?.ok()
    }

    /// Takes a message of the server. Returns whether the session goes on.
    fn hear(&mut self, connection: &mut Connection, word: ToWorker) -> bool {
        match word {
            Outbound::Ack { seq, .. } => {
                let judge = self.client.network.judge.clone();
                while connection.open.front().is_some_and(|(open, ..)| *open <= seq) {
                    let Some((_, key, n, sent)) = connection.open.pop_front() else { break };
                    let member = (self.app.clone(), self.unit.clone());
                    lock(&judge).report_acknowledged(member, key, n, sent);
                }
            }
            Outbound::Rejected { seq, error } => {
                self.client.note(format_args!("rejected: {error}"));
                connection.open.retain(|(open, ..)| *open != seq);
            }
            Outbound::Collect(Question { id, .. }) => {
                let status = self.status(&PartName::default());
                let command = Command::Replace(self.reporter(), None, vec![status]);
                self.say(connection, command, Some(id));
            }
            Outbound::NeedsMet(source) => {
                let mut judge = lock(&self.client.network.judge);
                judge.counts.needs_met += 1;
                let had_needs = matches!(&source, RecordKey::Status(key)
                    if key.unit == self.unit && self.needy.contains_key(&key.key));
                if !had_needs {
                    judge.accuse(format!("{:?} is notified of {source:?}", self.unit));
                }
            }
            Outbound::Leadership { is_self, lease_epoch, .. } => {
                self.leads = is_self.then_some(lease_epoch);
            }
            Outbound::Superseded { .. } | Outbound::Drain { .. } => return false,
            _ => {}
        }
        true
    }
}

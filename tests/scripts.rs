//! Scenarios as text: `tests/scripts/*.txt`. The indented output of each command follows the
//! command; `UPDATE=1` writes the current output.
//!
//! ```text
//! t=5s report web/0 db blocked "add a relation" action="juju integrate web db" ttl=90s
//! + report web/1 db active          (in the same commit as the line before)
//! report web/0 job waiting "later" ends_after=60s
//! stop web/0        confirm web/0
//! callback web/0 volume after=30s why="it attaches"        (without a time: cancelled)
//! replace web/0 ; db active "ok" ; cache waiting "warming up"
//! clear web/0 component=db kind=push
//! configure policy=openstack leader=web/0 lost_units=blocked lost_after=60s default_ttl=90s
//! configure replaced_after=600s quorum=5        (or quorum=60%, quorum=none)
//! configure latch=db:3,*:2 damp=- calm_after=60s          (none: take it away)
//! set-application web/0 override blocked "frozen" ttl=60s        clear-application web/0
//! replace-application web/0 ; db blocked "no database" ; cache waiting "warming up"
//! connect web/0 session=1.7        disconnect web/0 silent session=1.7 ttl=30s        orphan 1
//! register web/0 ttl=30s stateless=blue        depart web/0 session=1.7 ttl=30s
//! set-data web/0 outside=true key value        (web/0 has been made the leader outside)
//! claim web/0        release web/0 epoch=1        transfer web/0
//! lapse web/0 session=1.7 epoch=1        set-data web/0 epoch=1 key value key value        data
//! remove-unit web/0        delete        expire        show        why        log        faults
//! begin up-v2 by=web/0 v1 -> v2 payload=bundle deterministic lease=10s deadline=60s attempts=3
//! begin up-0 by=web/0 of=web/0 v1 -> v2        (work of the unit itself)
//! begin up-v3 by=web/0 v1 -> v3 supersede="v2 is broken"
//! begin back by=web/0 v2 -> v1 rollback
//! acquire up-v2 by=web/1 verify payload=changed
//! heartbeat up-v2 fence=1 checkpoint=3 progress="step 3/7"
//! release up-v2 fence=1        complete up-v2 fence=1        verify up-v2 fence=2 applied
//! fail up-v2 fence=1 TRANSIENT touched "no route" retry_after=30s
//! cancel up-v2        retry-op up-v2
//! op up-v2        (where it stands, and what is next)
//! error web/0 db grpc/UNAVAILABLE "refused" target=pg origin=transport retry_after=5s
//! resolve web/0 db target=pg        retry web/0 db why="mended"        skip web/0 db
//! ```
//!
//! `t=` sets the clock, `id=` is a request id, `incarnation=` is the incarnation of the worker,
//! `session=` is the session and its replica, `stateless=` is the label `line` of a stateless unit,
//! and `-` is an empty component.
#![allow(clippy::unwrap_used)] // here a panic is how a test fails

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::data::etag;
use bellwether::domain::delete::delete;
use bellwether::domain::derive::{Contribution, derive, strongest_of};
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::history::StatusEvent;
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{AppName, PartName};
use bellwether::domain::rank::Origin;
use bellwether::domain::request::RequestId;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Freshness;
use bellwether::domain::status::report::advice;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::domain::unit::presence::SessionId;

#[path = "scripts/errors.rs"]
mod errors;
#[path = "scripts/line.rs"]
mod line;
#[path = "scripts/operation.rs"]
mod operation;
use line::Line;

#[test]
fn scripts() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut differ = Vec::new();
    for path in paths() {
        let wanted = std::fs::read_to_string(&path).unwrap();
        let found = play(&wanted);
        if found == wanted {
            continue;
        }
        if update {
            std::fs::write(&path, &found).unwrap();
            continue;
        }
        let mut lines = wanted.lines().zip(found.lines()).enumerate();
        let first = lines.find(|(_, (wanted, found))| wanted != found);
        differ.push(match first {
            Some((n, (wanted, found))) => {
                format!("{}:{}\n  wanted {wanted}\n  found  {found}", path.display(), n + 1)
            }
            None => format!("{}: one is longer than the other\n{found}", path.display()),
        });
    }
    assert!(differ.is_empty(), "{}\n(UPDATE=1 writes what is found)", differ.join("\n"));
}

fn paths() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// Returns the script with its current output.
fn play(script: &str) -> String {
    let mut stage = Stage {
        now: Timestamp::new(0),
        state: AppState::empty(AppName::new("", "web").unwrap(), Revision(0)),
        history: Vec::new(),
        told: 0,
    };
    let lines = script.lines().filter(|line| !line.starts_with("  "));
    let mut lines = lines.peekable();
    let mut out = String::new();
    while let Some(line) = lines.next() {
        writeln!(out, "{line}").unwrap();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut batch = vec![Line::parse(line)];
        while let Some(more) = lines.next_if(|line| line.starts_with("+ ")) {
            writeln!(out, "{more}").unwrap();
            batch.push(Line::parse(more.trim_start_matches("+ ")));
        }
        for said in stage.play(&batch).lines() {
            writeln!(out, "  {said}").unwrap();
        }
    }
    out
}

struct Stage {
    now: Timestamp,
    state: AppState,
    history: Vec<StatusEvent>,
    /// The number of history lines that `log` has printed.
    told: usize,
}

impl Stage {
    /// Runs the lines of one commit; returns their output.
    fn play(&mut self, batch: &[Line]) -> String {
        if let Some(time) = batch[0].duration("t") {
            let now = Timestamp::new(0).after(time);
            assert!(self.now <= now, "the clock never goes back");
            self.now = now;
        }
        match batch[0].word(0) {
            "show" => self.show(),
            "why" => self.why(),
            "log" => self.log(),
            "faults" => errors::faults(&self.state),
            "data" => self.data(),
            "expire" => self.expire(),
            "op" => operation::show(&self.state, batch[0].word(1)),
            "delete" => self.delete(batch[0].option("id")),
            _ => self.commit(batch),
        }
    }

    fn commit(&mut self, batch: &[Line]) -> String {
        let mut out = String::new();
        let limits = Limits::default();
        let before = self.state.clone();
        let mut draft = Draft::new(&before, &limits, self.now);
        if batch.iter().any(operation::is_order) {
            // The server does the same before each command: changes by time show first.
            expire(&mut draft);
        }
        for line in batch {
            let command = operation::command(line, self.now).or_else(|| line.command());
            let command = command.unwrap_or_else(|| panic!("no command {:?}", line.words));
            let advice = match &command {
                Command::Report(_, _, new) => advice(&new.report),
                _ => Vec::new(),
            };
            let id = line.option("id").map(RequestId::from);
            match apply(&mut draft, &Request { id, command }) {
                Ok(outcome) => {
                    let revision = outcome.revision;
                    let changed = if outcome.changed { "" } else { "nothing new, " };
                    write!(out, "{changed}revision {revision}").unwrap();
                    if outcome.removed != 0 {
                        write!(out, ", {} removed", outcome.removed).unwrap();
                    }
                    if outcome.fence != 0 {
                        write!(out, ", fence {}", outcome.fence).unwrap();
                    }
                    if outcome.lease_epoch != 0 {
                        write!(out, ", epoch {}", outcome.lease_epoch).unwrap();
                    }
                    if outcome.data_version != 0 {
                        write!(out, ", etag {}", etag(outcome.data_version)).unwrap();
                    }
                    if outcome.incarnation != 0 {
                        write!(out, ", incarnation {}", outcome.incarnation).unwrap();
                    }
                    out.push('\n');
                    advice.iter().for_each(|a| writeln!(out, "advice: {a}").unwrap());
                }
                Err(rejected) => writeln!(out, "rejected: {rejected}").unwrap(),
            }
        }
        let transition = draft.finish();
        if transition.is_durable() && !transition.moves_revision() {
            out.push_str("written, and nobody is told\n");
        }
        self.replay(&transition);
        out
    }

    fn expire(&mut self) -> String {
        let from = self.history.len();
        loop {
            let before = self.state.clone();
            let limits = Limits::default();
            let mut draft = Draft::new(&before, &limits, self.now);
            expire(&mut draft);
            self.replay(&draft.finish());
            if self.state.next_due().is_none_or(|at| self.now < at) {
                break;
            }
        }
        let events: String = self.history[from..].iter().map(event).collect();
        let due = self.state.next_due();
        let due = due.map_or_else(|| "never".to_string(), |at| format!("at {}", time(at)));
        format!("{events}looks again {due}")
    }

    fn delete(&mut self, id: Option<&str>) -> String {
        let id = id.map(RequestId::from);
        match delete(&self.state, id.as_ref(), self.now) {
            Ok((transition, outcome)) => {
                transition.iter().for_each(|t| self.replay(t));
                format!("revision {}, {} removed", outcome.revision, outcome.removed)
            }
            Err(rejected) => format!("rejected: {rejected}"),
        }
    }

    fn replay(&mut self, transition: &Transition) {
        self.state.replay(transition);
        self.history.extend(transition.events.iter().cloned());
    }

    // === reading ===

    fn data(&self) -> String {
        let pairs = self.state.data().iter();
        pairs.map(|(key, value)| format!("{key} = {}\n", String::from_utf8_lossy(value))).collect()
    }

    fn show(&self) -> String {
        let head = self.state.head();
        if !self.state.exists() {
            return format!("web is not known | revision {}", head.revision);
        }
        let summary = &head.summary;
        let mut out = format!("web is {} since {}", summary.level.word(), time(summary.since));
        if !summary.message.is_empty() {
            write!(out, ": {}", summary.message).unwrap();
        }
        if 0 < summary.totals.flapping {
            let winner = summary.winner.as_ref().is_some_and(|w| w.flaps);
            let among = if winner { ", the winner too" } else { "" };
            write!(out, " [{} flapping{among}]", summary.totals.flapping).unwrap();
        }
        write!(out, "\n  | {}", summary.rule.words(&head.config.policy)).unwrap();
        if !summary.action.is_empty() {
            write!(out, "\n  | action: {}", summary.action).unwrap();
        }
        for stated in head.needs.iter().flat_map(|stated| &stated.needs) {
            let (need, by) = (&stated.need, &stated.stated_by.unit);
            write!(out, "\n  | {by} needs {need} since {}", time(stated.since)).unwrap();
        }
        let units = self.state.units_after(None).map(|(name, unit)| {
            let strongest = strongest_of(&self.state, name);
            let level = strongest.map_or(Level::Unknown, |strongest| strongest.rank.level);
            let star = if head.leader() == Some(name) { "*" } else { "" };
            let fresh = match unit.freshness() {
                Freshness::Fresh => String::new(),
                stale => format!(" ({})", format!("{stale:?}").to_lowercase()),
            };
            let session = match unit.session() {
                Some(SessionId { replica, number }) => format!(" [{}.{number}]", replica.0),
                None => String::new(),
            };
            format!("{name}{star} {}{fresh}{session}", level.word())
        });
        let units: Vec<String> = units.collect();
        let units = if units.is_empty() { "no units".to_string() } else { units.join(", ") };
        write!(out, "\n  | {units}").unwrap();
        out
    }

    fn why(&self) -> String {
        let derived = derive(&self.state, 10);
        let mut out = String::new();
        if let Some(winner) = &derived.winner {
            writeln!(out, "winner  {}", contribution(winner)).unwrap();
        }
        for other in &derived.others {
            let line = contribution(other);
            writeln!(out, "beaten  {line}  <- {}", other.beaten_by).unwrap();
        }
        if derived.silent_count != 0 {
            writeln!(out, "silent  {}", derived.silent_count).unwrap();
        }
        if out.is_empty() {
            out.push_str("nothing contributes");
        }
        out
    }

    /// Returns the events since the last `log`.
    fn log(&mut self) -> String {
        let events: String = self.history[self.told..].iter().map(event).collect();
        self.told = self.history.len();
        match events.as_str() {
            "" => "nothing happened".to_string(),
            _ => events,
        }
    }
}

fn contribution(one: &Contribution) -> String {
    let key = &one.rank.key;
    let mut out = match (one.rank.origin, key.unit.as_str()) {
        (Origin::Leader, _) => "the leader".to_string(),
        (Origin::Operation, "") => "the".to_string(),
        (_, "") => "(application)".to_string(),
        (_, unit) => unit.to_string(),
    };
    for name in [&key.component, &key.key] {
        if !name.as_str().is_empty() {
            write!(out, " {}", name.as_str()).unwrap();
        }
    }
    write!(out, " {}", one.rank.level.word()).unwrap();
    if !one.words.message.is_empty() {
        write!(out, ": {}", one.words.message).unwrap();
    }
    if one.freshness == Freshness::Stale {
        out.push_str(" (stale)");
    }
    if one.while_stopping {
        out.push_str(" (while it stopped)");
    }
    if !one.held.is_empty() {
        write!(out, " [{}]", one.held).unwrap();
    }
    out
}

fn event(event: &StatusEvent) -> String {
    let mut out = format!("{} #{} ", time(event.time), event.revision);
    match &event.subject {
        None => out.push_str("web"),
        Some(subject) if subject.component == PartName::operation() => {
            write!(out, "operation {}", subject.key.as_str()).unwrap();
        }
        Some(subject) if subject.unit.is_application() && subject.kind.is_none() => {
            out.push_str("the leader");
        }
        Some(subject) => {
            match subject.unit.as_str() {
                "" => out.push_str("(application)"),
                unit => out.push_str(unit),
            }
            for name in [&subject.component, &subject.key] {
                if !name.as_str().is_empty() {
                    write!(out, " {}", name.as_str()).unwrap();
                }
            }
        }
    }
    let word = |level: Option<Level>| level.map_or("none", Level::word);
    if event.from.is_some() || event.to.is_some() {
        write!(out, " {} -> {}", word(event.from), word(event.to)).unwrap();
    }
    if !event.message.is_empty() {
        write!(out, ": {}", event.message).unwrap();
    }
    format!("{out} ({:?})\n", event.cause)
}

fn time(at: Timestamp) -> String {
    format!("t={}s", at.millis() / 1000)
}

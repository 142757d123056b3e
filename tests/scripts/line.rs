//! A line of a script, and the command it stands for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::command::{Command, NewStatus};
use bellwether::domain::data::DataPatch;
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::level::Level;
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::need::{Need, Needs};
use bellwether::domain::policy::{ConfigPatch, Damping, Latch, LostUnits, Policy, Scope};
use bellwether::domain::quorum::Quorum;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::{Details, Report};
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::presence::{ReplicaId, SessionId};
use bellwether::domain::unit::{Newcomer, Reporter, Topic};

/// A line of a script: words, and `name=value` apart. Quotes hold a text together.
pub struct Line {
    pub words: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Line {
    pub fn parse(line: &str) -> Line {
        let mut parsed = Line { words: Vec::new(), options: BTreeMap::new() };
        let mut word = String::new();
        let (mut quoted, mut plain) = (false, true);
        for c in line.chars().chain([' ']) {
            match c {
                '"' => (quoted, plain) = (!quoted, plain && word.contains('=')),
                ' ' if !quoted => {
                    match word.split_once('=') {
                        Some((name, value)) if plain => {
                            parsed.options.insert(name.to_string(), value.to_string());
                        }
                        _ if !word.is_empty() || !plain => parsed.words.push(word.clone()),
                        _ => {}
                    }
                    (word, plain) = (String::new(), true);
                }
                c => word.push(c),
            }
        }
        assert!(!quoted, "a quote is left open: {line}");
        parsed
    }

    pub fn word(&self, n: usize) -> &str {
        self.words.get(n).map_or("", |w| w.as_str())
    }

    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(|value| value.as_str())
    }

    fn text(&self, name: &str) -> Box<str> {
        self.option(name).unwrap_or("").into()
    }

    fn number(&self, name: &str) -> i32 {
        self.option(name).map_or(0, |n| n.parse().unwrap())
    }

    pub fn unit(&self, n: usize) -> UnitName {
        UnitName::new(self.word(n)).unwrap()
    }

    pub fn part_at(&self, n: usize) -> PartName {
        part(self.word(n))
    }

    fn part(&self, name: &str) -> Option<PartName> {
        self.option(name).map(part)
    }

    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.option(name).map(duration)
    }

    fn kind(&self) -> Option<Kind> {
        self.option("kind").map(|word| match word {
            "pull" => Kind::Pull,
            "push" => Kind::Push,
            other => panic!("no kind {other}"),
        })
    }

    fn incarnation(&self) -> Option<u64> {
        self.option("incarnation").map(|n| n.parse().unwrap())
    }

    pub fn reporter(&self) -> Reporter {
        let session = self.option("session").map(session);
        Reporter { session, ..Reporter::new(self.unit(1), self.incarnation()) }
    }

    /// A unit that begins; `stateless=` is its value of the label `line`.
    fn newcomer(&self) -> Newcomer {
        let line = self.option("stateless");
        let labels = line.map(|value| ("line".into(), value.into()));
        Newcomer {
            unit: self.unit(1),
            incarnation: self.incarnation(),
            stateless: line.is_some(),
            labels: labels.into_iter().collect(),
        }
    }

    fn ttl(&self) -> Duration {
        self.duration("ttl").unwrap_or(Duration::from_secs(30))
    }

    fn coming_or_going(&self) -> Option<Command> {
        let session = || session(self.option("session").unwrap());
        Some(match self.word(0) {
            "connect" => Command::Connect(self.newcomer(), session()),
            "register" => Command::Register(self.newcomer(), self.duration("ttl")),
            "disconnect" => Command::Disconnect {
                unit: self.unit(1),
                session: session(),
                ttl: self.ttl(),
                silent: self.word(2) == "silent",
            },
            "stop" => Command::AnnounceStop(self.reporter()),
            "callback" => Command::RequestCallback {
                reporter: self.reporter(),
                topic: Topic::requested(PartName::default(), self.part_at(2)),
                after: self.duration("after"),
                reason: self.text("why"),
            },
            "depart" => Command::Depart { reporter: self.reporter(), ttl: self.ttl() },
            "orphan" => Command::EndSessions { replica: replica(self.word(1)), ttl: self.ttl() },
            _ => return None,
        })
    }

    fn claim(&self) -> Claim {
        let lease_epoch = self.option("epoch").map_or(0, |n| n.parse().unwrap());
        Claim { unit: self.unit(1), lease_epoch, decided_outside: self.option("outside").is_some() }
    }

    /// What a status needs: applications as `NAMESPACE/NAME`, or words after `outside:`.
    fn needs(&self) -> Needs {
        let needs = self.option("needs").into_iter().flat_map(|needs| needs.split(','));
        let need = needs.map(|need| match need.strip_prefix("outside:") {
            Some(words) => Need::Outside(words.into()),
            None => {
                let (namespace, name) = need.split_once('/').unwrap_or(("", need));
                Need::application(AppName::new(namespace, name).unwrap(), Vec::new())
            }
        });
        need.collect()
    }

    /// A status from word `n` on: component, level, message.
    fn status(&self, n: usize) -> NewStatus {
        let report = Report {
            level: level(self.word(n + 1)),
            message: self.word(n + 2).into(),
            ttl: self.duration("ttl"),
            ..Report::default()
        };
        let details = Details {
            reason: self.text("reason"),
            action: self.text("action"),
            priority: self.number("priority"),
            precedence: self.number("precedence"),
            end_after: self.duration("ends_after"),
            needs: self.needs(),
            ..Details::default()
        };
        NewStatus {
            component: part(self.word(n)),
            key: self.part("key").unwrap_or_default(),
            report: Arc::new(report.with(details)),
            observe_time: self.duration("observed").map(|d| Timestamp::new(0).after(d)),
        }
    }

    /// The statuses of a set: after each `;` component, level, message. Options belong to all.
    fn set(&self) -> Vec<NewStatus> {
        let starts = self.words.iter().enumerate().filter(|(_, w)| *w == ";");
        let ends_at = |n: usize| self.words[n..].iter().position(|w| w == ";");
        let statuses = starts.map(|(n, _)| {
            let end = ends_at(n + 1).map_or(self.words.len(), |more| n + 1 + more);
            let one =
                Line { words: self.words[n + 1..end].to_vec(), options: self.options.clone() };
            one.status(0)
        });
        statuses.collect()
    }

    pub fn command(&self) -> Option<Command> {
        Some(match self.word(0) {
            "report" => {
                let kind = self.kind().unwrap_or(Kind::Push);
                Command::Report(self.reporter(), kind, self.status(2))
            }
            "replace" => Command::Replace(self.reporter(), self.part("component"), self.set()),
            "confirm" => Command::Confirm(self.reporter(), self.part("component")),
            "clear" => Command::Clear {
                reporter: self.reporter(),
                component: self.part("component"),
                key: self.part("key"),
                kind: self.kind(),
            },
            "configure" => Command::Configure(Box::new(self.patch())),
            "set-application" => Command::SetApplicationStatus(
                self.claim(),
                NewApplicationStatus {
                    mode: match self.word(2) {
                        "override" => Mode::Override,
                        "contribute" => Mode::Contribute,
                        other => panic!("no mode {other}"),
                    },
                    level: level(self.word(3)),
                    message: self.word(4).into(),
                    reason: self.text("reason"),
                    action: self.text("action"),
                    ttl: self.duration("ttl"),
                    observe_time: None,
                },
            ),
            "replace-application" => {
                let component = self.part("component");
                Command::ReplaceApplicationStatuses(self.claim(), component, self.set())
            }
            "clear-application" => Command::ClearApplicationStatus(self.claim()),
            "claim" => Command::ClaimLeadership(self.reporter(), None),
            "release" => Command::ReleaseLeadership(self.claim()),
            "transfer" => Command::TransferLeadership(self.unit(1)),
            "lapse" => {
                Command::LapseLeadership(self.claim(), session(self.option("session").unwrap()))
            }
            "set-data" => Command::UpdateData(self.claim(), self.data()),
            "remove-unit" => Command::RemoveUnit(self.unit(1)),
            _ => return self.about_error().or_else(|| self.coming_or_going()),
        })
    }

    /// Keys and values, one after the other.
    fn data(&self) -> DataPatch {
        let pairs = self.words[2..].chunks(2);
        let set = pairs.map(|pair| (Arc::from(&*pair[0]), pair[1].clone().into()));
        let etag = self.option("etag").map(Box::from);
        DataPatch { set: set.collect(), etag, ..DataPatch::default() }
    }

    fn patch(&self) -> ConfigPatch {
        ConfigPatch {
            policy: self.option("policy").map(|word| match word {
                "juju" => Policy::Juju,
                "openstack" => Policy::OpenStack,
                "strict" => Policy::Strict,
                other => panic!("no policy {other}"),
            }),
            lost_units: self.option("lost_units").map(|word| match word {
                "ignore" => LostUnits::Ignore,
                "waiting" => LostUnits::Waiting,
                "blocked" => LostUnits::Blocked,
                other => panic!("no lost_units {other}"),
            }),
            external_leader: self.option("leader").map(|unit| Some(UnitName::new(unit).unwrap())),
            lease_duration: self.duration("lease"),
            drop_leader_status: self.option("drop").map(|word| word == "true"),
            lost_after: self.duration("lost_after"),
            replaced_after: self.duration("replaced_after"),
            quorum: self.option("quorum").map(quorum),
            default_ttl: self.duration("default_ttl").map(Some),
            hand_over: self.option("hand_over").map(|label| match label {
                "none" => None,
                "any" => Some("".into()),
                label => Some(label.into()),
            }),
            latches: self.option("latch").map(|given| each(given).map(latch).collect()),
            damping: self.option("damp").map(|given| Damping {
                scopes: each(given).map(scope).collect(),
                calm_after: self.duration("calm_after").unwrap_or(Damping::default().calm_after),
                ..Damping::default()
            }),
            ..ConfigPatch::default()
        }
    }
}

/// `none`, a number of units, or a share of them: `60%`.
fn quorum(text: &str) -> Option<Quorum> {
    let percent = text.strip_suffix('%').map(|percent| Quorum::Percent(percent.parse().unwrap()));
    (text != "none").then(|| percent.unwrap_or_else(|| Quorum::Units(text.parse().unwrap())))
}

fn part(text: &str) -> PartName {
    PartName::new(if text == "-" { "" } else { text }).unwrap()
}

/// What is between commas; `none` is nothing.
fn each(given: &str) -> impl Iterator<Item = &str> {
    given.split(',').filter(|one| *one != "none")
}

fn scope(text: &str) -> Scope {
    match text {
        "*" => Scope::All,
        text => Scope::Component(part(text)),
    }
}

/// `db:3`.
fn latch(text: &str) -> Latch {
    let (component, good_count) = text.split_once(':').unwrap();
    Latch { scope: scope(component), good_count: good_count.parse().unwrap() }
}

fn level(word: &str) -> Level {
    let found = Level::ALL.into_iter().find(|l| l.word() == word);
    found.unwrap_or_else(|| panic!("no level {word:?}"))
}

/// As `1.7`: the seventh of replica 1.
fn session(text: &str) -> SessionId {
    let (replica_number, number) = text.split_once('.').unwrap();
    SessionId { replica: replica(replica_number), number: number.parse().unwrap() }
}

fn replica(text: &str) -> ReplicaId {
    ReplicaId(text.parse().unwrap())
}

fn duration(text: &str) -> Duration {
    let seconds = text.strip_suffix('s').and_then(|n| n.parse().ok());
    Duration::from_secs(seconds.unwrap_or_else(|| panic!("{text:?} is not as 90s")))
}

//! A line of a script, and the command it stands for.

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether::domain::app::Mode;
use bellwether::domain::command::{Claim, Command, NewApplicationStatus, NewStatus, Speaker};
use bellwether::domain::name::{PartName, UnitName};
use bellwether::domain::policy::{ConfigPatch, LostUnits, Policy};
use bellwether::domain::status::{Kind, Level, Report};
use bellwether::domain::time::Timestamp;

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

    fn unit(&self, n: usize) -> UnitName {
        UnitName::new(self.word(n)).unwrap()
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

    fn claim(&self) -> Claim {
        Claim { unit: self.unit(1), lease_epoch: 0 }
    }

    /// A status from word `n` on: component, level, message.
    fn status(&self, n: usize) -> NewStatus {
        NewStatus {
            component: part(self.word(n)),
            key: self.part("key").unwrap_or_default(),
            report: Report {
                level: level(self.word(n + 1)),
                message: self.word(n + 2).into(),
                reason: self.text("reason"),
                action: self.text("action"),
                priority: self.number("priority"),
                precedence: self.number("precedence"),
                ttl: self.duration("ttl"),
                ..Report::default()
            },
            observe_time: self.duration("observed").map(|d| Timestamp(0).after(d)),
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
        let incarnation = || self.option("incarnation").map(|n| n.parse().unwrap());
        let speaker = || Speaker::new(self.unit(1), incarnation());
        Some(match self.word(0) {
            "report" => {
                let kind = self.kind().unwrap_or(Kind::Push);
                Command::Report(speaker(), kind, self.status(2))
            }
            "replace" => Command::Replace(speaker(), self.part("component"), self.set()),
            "clear" => Command::Clear {
                speaker: speaker(),
                component: self.part("component"),
                key: self.part("key"),
                kind: self.kind(),
            },
            "configure" => Command::Configure(self.patch()),
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
            "clear-application" => Command::ClearApplicationStatus(self.claim()),
            "remove-unit" => Command::RemoveUnit(self.unit(1)),
            _ => return None,
        })
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
            lost_after: self.duration("lost_after"),
            default_ttl: self.duration("default_ttl").map(Some),
            ..ConfigPatch::default()
        }
    }
}

fn part(text: &str) -> PartName {
    PartName::new(if text == "-" { "" } else { text }).unwrap()
}

fn level(word: &str) -> Level {
    let found = Level::ALL.into_iter().find(|l| l.word() == word);
    found.unwrap_or_else(|| panic!("no level {word:?}"))
}

fn duration(text: &str) -> Duration {
    let seconds = text.strip_suffix('s').and_then(|n| n.parse().ok());
    Duration::from_secs(seconds.unwrap_or_else(|| panic!("{text:?} is not as 90s")))
}

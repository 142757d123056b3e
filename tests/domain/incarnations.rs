//! Overlapping old and new incarnations of a unit, in every order of their messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::draft::Draft;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{PartName, UnitName};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::Outcome;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::{Freshness, Kind, StatusKey};
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::presence::{Presence, ReplicaId, SessionId};
use bellwether::domain::unit::refused::IdentityError;
use bellwether::domain::unit::{Newcomer, Reporter};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::commands::new_status;
use crate::world::app_name;

const TTL: Duration = Duration::from_secs(30);

/// A message of an incarnation, in its session or outside of it.
#[derive(Debug, Clone)]
enum Says {
    Hello,
    Report(Kind, NewStatus),
    Replace(Option<PartName>, Vec<NewStatus>),
    Clear(Option<PartName>, Option<Kind>),
    Goodbye,
    /// The stream has ended.
    Ended {
        silent: bool,
    },
}

/// The sender, whether the message is in its session, and the message.
type Message = (usize, bool, Says);

proptest! {
    /// The hello names the incarnation, or gets the next one on arrival.
    #[test]
    fn only_the_newest_incarnation_has_effect_in_any_order_of_messages(
        messages in overlapping(), named in any::<bool>()
    ) {
        let kept = kept(&messages, named);
        let mut full = Stage::new(named);
        let mut without = Stage::new(named);
        for (n, message) in messages.iter().enumerate() {
            let before = full.state.clone();
            let result = full.hear(n, message);
            match (&result, &message.2) {
                (Ok(_), _) if kept[n] => {}
                (Ok(outcome), Says::Ended { .. }) => assert!(!outcome.changed),
                (Err(Rejected::Identity(
                    IdentityError::StaleIncarnation { .. } | IdentityError::UnitRemoved { .. },
                )), _)
                | (Err(Rejected::UnitNotFound(_)), Says::Clear(..) | Says::Goodbye) => {
                    assert!(!kept[n], "{message:?}: {result:?}");
                }
                _ => panic!("{message:?}: {result:?}"),
            }
            if kept[n] {
                without.hear(n, message).unwrap();
            } else {
                assert_eq!(full.state, before);
            }
            assert_eq!(full.state, without.state);
            check(&full, &messages[..=n], &kept);
        }
    }
}

/// Generates two or three incarnations; each sends its own messages in order.
fn overlapping() -> impl Strategy<Value = Vec<Message>> {
    vec(incarnation(), 2..4).prop_flat_map(|said| {
        let owners = said.iter().enumerate().flat_map(|(n, said)| vec![n; said.len()]);
        let owners = Just(owners.collect::<Vec<usize>>()).prop_shuffle();
        owners.prop_map(move |owners| {
            let mut said: Vec<_> = said.iter().map(|said| said.clone().into_iter()).collect();
            let next = owners.into_iter().map(|owner| {
                let (in_session, says) = said[owner].next().unwrap();
                (owner, in_session, says)
            });
            next.collect()
        })
    })
}

fn incarnation() -> impl Strategy<Value = Vec<(bool, Says)>> {
    let kind = || select(vec![Kind::Pull, Kind::Push]);
    let component = || option::of(select(vec!["", "c2"]).prop_map(|c| PartName::new(c).unwrap()));
    let body = prop_oneof![
        4 => (kind(), lasting()).prop_map(|(kind, new)| Says::Report(kind, new)),
        3 => (component(), vec(lasting(), 0..4)).prop_map(replace),
        1 => (component(), option::of(kind())).prop_map(|(c, k)| Says::Clear(c, k)),
    ];
    let end = prop_oneof![
        3 => any::<bool>().prop_map(|silent| Some(Says::Ended { silent })),
        1 => Just(Some(Says::Goodbye)),
        2 => Just(None),
    ];
    (vec((any::<bool>(), body), 0..6), any::<bool>(), end).prop_map(|(body, in_session, end)| {
        let end = end.map(|end| (in_session, end));
        std::iter::once((true, Says::Hello)).chain(body).chain(end).collect()
    })
}

/// Generates a status without a ttl: these tests do not involve time.
fn lasting() -> impl Strategy<Value = NewStatus> {
    new_status().prop_map(|mut new| {
        Arc::make_mut(&mut new.report).ttl = None;
        new
    })
}

fn replace((component, mut set): (Option<PartName>, Vec<NewStatus>)) -> Says {
    if let Some(component) = &component {
        set.iter_mut().for_each(|new| new.component = component.clone());
    }
    let mut seen = std::collections::BTreeSet::new();
    set.retain(|new| seen.insert((new.component.clone(), new.key.clone())));
    Says::Replace(component, set)
}

/// Returns which messages count: those of an incarnation without a newer hello before.
fn kept(messages: &[Message], named: bool) -> Vec<bool> {
    let mut newest = None;
    let kept = messages.iter().map(|(owner, _, says)| {
        if matches!(says, Says::Hello) && (!named || newest < Some(*owner)) {
            newest = Some(*owner);
        }
        newest == Some(*owner)
    });
    kept.collect()
}

struct Stage {
    state: AppState,
    /// The incarnation of each sender that has sent a hello.
    incarnations: BTreeMap<usize, u64>,
    named: bool,
}

fn unit() -> UnitName {
    UnitName::new("web/0").unwrap()
}

/// Returns a session on one of two replicas.
fn session(owner: usize) -> SessionId {
    SessionId { replica: ReplicaId(1 + owner as u64 % 2), number: owner as u64 }
}

impl Stage {
    fn new(named: bool) -> Stage {
        let state = AppState::empty(app_name(), Revision(0));
        Stage { state, incarnations: BTreeMap::new(), named }
    }

    fn hear(&mut self, n: usize, message: &Message) -> Result<Outcome, Rejected> {
        let limits = Limits::default();
        let before = self.state.clone();
        let mut draft = Draft::new(&before, &limits, Timestamp::new(1000 + 100 * n as u64));
        let result = apply(&mut draft, &Request { id: None, command: self.command(message) });
        self.state.replay(&draft.finish());
        if let (Ok(outcome), Says::Hello) = (&result, &message.2) {
            self.incarnations.insert(message.0, outcome.incarnation);
        }
        result
    }

    fn command(&self, (owner, in_session, says): &Message) -> Command {
        let session = session(*owner);
        let named = self.named.then_some(*owner as u64 + 1);
        let reporter = Reporter {
            unit: unit(),
            incarnation: named.or_else(|| self.incarnations.get(owner).copied()),
            session: in_session.then_some(session),
        };
        match says.clone() {
            Says::Hello => {
                let labels = BTreeMap::new();
                let unit = unit();
                let who = Newcomer { unit, incarnation: named, stateless: false, labels };
                Command::Connect(who, session)
            }
            Says::Report(kind, new) => Command::Report(reporter, kind, new),
            Says::Replace(component, set) => Command::Replace(reporter, component, set),
            Says::Clear(component, kind) => Command::Clear { reporter, component, key: None, kind },
            Says::Goodbye => Command::Depart { reporter, ttl: TTL },
            Says::Ended { silent } => {
                Command::Disconnect { unit: unit(), session, ttl: TTL, silent }
            }
        }
    }
}

/// The expected result of the messages that count, computed from scratch.
#[derive(Default)]
struct Expected {
    /// The sender of each existing status.
    statuses: BTreeMap<StatusKey, usize>,
    newest: Option<usize>,
    is_there: bool,
    is_connected: bool,
    is_quiet: bool,
}

impl Expected {
    fn hear(&mut self, (owner, _, says): &Message) {
        let key = |kind: Kind, new: &NewStatus| {
            StatusKey::new(unit(), new.component.clone(), new.key.clone(), kind)
        };
        self.newest = Some(*owner);
        (self.is_there, self.is_quiet) = (true, false);
        match says {
            Says::Hello => self.is_connected = true,
            Says::Report(kind, new) => {
                self.statuses.insert(key(*kind, new), *owner);
            }
            Says::Replace(component, set) => {
                let belongs = |k: &StatusKey| component.as_ref().is_none_or(|c| k.component == *c);
                self.statuses.retain(|k, _| k.kind == Kind::Push || !belongs(k));
                self.statuses.extend(set.iter().map(|new| (key(Kind::Pull, new), *owner)));
            }
            Says::Clear(component, kind) => self.statuses.retain(|k, _| {
                component.as_ref().is_some_and(|c| k.component != *c)
                    || kind.is_some_and(|kind| k.kind != kind)
            }),
            Says::Goodbye => *self = Expected { newest: self.newest, ..Expected::default() },
            Says::Ended { silent } => (self.is_connected, self.is_quiet) = (false, *silent),
        }
    }
}

fn check(stage: &Stage, messages: &[Message], kept: &[bool]) {
    let mut expected = Expected::default();
    for (message, _) in messages.iter().zip(kept).filter(|(_, kept)| **kept) {
        expected.hear(message);
    }
    let state = &stage.state;
    let name = unit();
    let found = state.statuses().of(&name, None).map(|(key, _)| &**key);
    assert!(found.eq(expected.statuses.keys()), "what was pushed survives");
    let Some(unit) = state.unit(&name) else {
        return assert!(!expected.is_there);
    };
    let newest = expected.newest.unwrap();
    assert_eq!(unit.incarnation, stage.incarnations[&newest]);
    let presence = match expected.is_connected {
        true => Presence::Connected(session(newest)),
        false => Presence::Promised(TTL),
    };
    assert_eq!(unit.presence, presence);
    let is_old = |(key, by): (&StatusKey, &usize)| key.kind == Kind::Pull && *by != newest;
    for (key, by) in &expected.statuses {
        assert_eq!(unit.has_outlived(key, state.status(key).unwrap()), is_old((key, by)));
    }
    // A complete answer replaces all statuses pulled from the earlier incarnation.
    let is_stale = expected.is_quiet || expected.statuses.iter().any(is_old);
    let freshness = if is_stale { Freshness::Stale } else { Freshness::Fresh };
    assert_eq!(unit.freshness(), freshness);
}

//! The contact of a relay with its upstreams: what each has proved, as of when, and what is wrong.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::time::Timestamp;
use crate::watch::Proved;

/// How long an upstream may prove nothing before answers say as of when they are.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(15);

/// How long a relay waits for the first copy of every upstream before it serves those that it has.
const COMPLETE_WITHIN: Duration = Duration::from_secs(5);

/// Characters of the reason why the upstream was lost. That of another relay has its own reason in
/// it, and in a circle of relays each has all of them.
const PROBLEM_MAX: usize = 300;

/// Some upstreams of a relay, which has 16 at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpstreamSet(u16);

impl UpstreamSet {
    /// Returns the set of one.
    pub(super) fn of(upstream: usize) -> UpstreamSet {
        UpstreamSet(1_u16.checked_shl(upstream as u32).unwrap_or_default())
    }

    /// Returns the set of those below a number.
    pub(super) fn below(count: usize) -> UpstreamSet {
        (0..count).map(UpstreamSet::of).collect()
    }

    pub(super) fn has(self, upstream: usize) -> bool {
        self.0 & UpstreamSet::of(upstream).0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the only one.
    pub(super) fn only(self) -> Option<usize> {
        (self.0.count_ones() == 1).then_some(self.0.trailing_zeros() as usize)
    }
}

impl FromIterator<UpstreamSet> for UpstreamSet {
    fn from_iter<T: IntoIterator<Item = UpstreamSet>>(sets: T) -> UpstreamSet {
        UpstreamSet(sets.into_iter().fold(0, |all, set| all | set.0))
    }
}

/// The contact with one upstream: a watch for each namespace, or one for all.
#[derive(Debug, Default)]
pub(super) struct UpstreamContact {
    parts: Vec<Part>,
    /// As of when all parts are current, and when that last advanced by the clock of this process.
    as_of: Option<(Timestamp, Instant)>,
    /// Why the upstream was lost.
    pub(super) problem: String,
    /// Another upstream with the same store.
    twin: Option<usize>,
}

#[derive(Debug, Clone, Default)]
struct Part {
    is_connected: bool,
    proved: Option<(Proved, Timestamp)>,
}

impl UpstreamContact {
    pub(super) fn is_connected(&self) -> bool {
        self.parts.iter().all(|part| part.is_connected)
    }

    /// Returns as of when the copy of this upstream is current; `None` before the first one.
    pub(super) fn as_of(&self) -> Option<Timestamp> {
        self.as_of.map(|(as_of, _)| as_of)
    }

    /// Returns the same if the upstream has proved nothing newer for 15 s.
    pub(super) fn stale_since(&self) -> Option<Timestamp> {
        self.as_of.filter(|(_, at)| STALE_AFTER < at.elapsed()).map(|(as_of, _)| as_of)
    }

    /// Returns what its parts prove together: nothing while one is missing or of another history,
    /// because a reader would not learn what it had removed before.
    fn joined(&self) -> Option<Proved> {
        let mut parts = self.parts.iter().map(|part| Some(&part.proved.as_ref()?.0));
        let first = parts.next()??.clone();
        parts.try_fold(first, |all, part| all.joined(part?))
    }

    fn proved(&self) -> impl Iterator<Item = &Proved> {
        self.parts.iter().filter_map(|part| part.proved.as_ref()).map(|(proved, _)| proved)
    }
}

/// The contact with every upstream.
#[derive(Debug)]
pub(super) struct UpstreamContacts {
    all: Vec<UpstreamContact>,
    began: Instant,
    is_open: bool,
}

impl UpstreamContacts {
    /// Creates the contacts with this number of upstreams, each with this number of watches.
    pub(super) fn new(upstreams: usize, parts: usize) -> UpstreamContacts {
        let contact = || UpstreamContact {
            parts: vec![Part::default(); parts],
            ..UpstreamContact::default()
        };
        let all = (0..upstreams).map(|_| contact()).collect();
        UpstreamContacts { all, began: Instant::now(), is_open: false }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &UpstreamContact> {
        self.all.iter()
    }

    fn in_set(&self, set: UpstreamSet) -> impl Iterator<Item = (usize, &UpstreamContact)> {
        self.all.iter().enumerate().filter(move |(upstream, _)| set.has(*upstream))
    }

    /// Returns another upstream with a store that an upstream proves, and notes it.
    pub(super) fn note_twin(&mut self, upstream: usize, proved: &Proved) -> Option<usize> {
        let is_same = |other: &UpstreamContact| {
            let mut known = other.proved().flat_map(Proved::epochs).map(|epoch| epoch.store_id);
            known.any(|known| proved.epochs().any(|epoch| epoch.store_id == known))
        };
        let mut others = self.all.iter().enumerate().filter(|(other, _)| *other != upstream);
        let twin = others.find(|(_, other)| is_same(other)).map(|(other, _)| other);
        if let Some(contact) = self.all.get_mut(upstream) {
            contact.twin = twin;
        }
        twin
    }

    /// Returns two upstreams with one store.
    pub(super) fn twins(&self) -> Option<(usize, usize)> {
        let mut all = self.all.iter().enumerate();
        all.find_map(|(upstream, contact)| Some((contact.twin?, upstream)))
    }

    /// Takes a proof of a part.
    pub(super) fn prove(
        &mut self,
        (upstream, part): (usize, usize),
        proved: Proved,
        as_of: Timestamp,
    ) {
        let Some(contact) = self.all.get_mut(upstream) else { return };
        if let Some(part) = contact.parts.get_mut(part) {
            *part = Part { is_connected: true, proved: Some((proved, as_of)) };
        }
        if contact.is_connected() {
            contact.problem.clear();
        }
    }

    /// Returns what an upstream has proved last; `None` while a part of it is missing.
    pub(super) fn proved_by(&self, upstream: usize) -> Option<Proved> {
        self.all.get(upstream)?.joined()
    }

    /// Makes the proofs of an upstream count: the hub has what they are about.
    pub(super) fn advance(&mut self, upstream: usize) {
        let Some(contact) = self.all.get_mut(upstream) else { return };
        let parts = contact.parts.iter().map(|part| part.proved.as_ref().map(|(_, at)| *at));
        let oldest = parts.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min());
        let Some(oldest) = oldest else { return };
        if contact.as_of().is_none_or(|known| known < oldest) {
            contact.as_of = Some((oldest, Instant::now()));
        }
    }

    pub(super) fn disconnected(&mut self, (upstream, part): (usize, usize)) {
        let contact = self.all.get_mut(upstream);
        if let Some(part) = contact.and_then(|contact| contact.parts.get_mut(part)) {
            part.is_connected = false;
        }
    }

    pub(super) fn lost(&mut self, upstream: usize, problem: &str) {
        if let Some(contact) = self.all.get_mut(upstream) {
            contact.problem = problem.chars().take(PROBLEM_MAX).collect();
        }
    }

    /// Begins to serve when there is a copy of every upstream; without one of them after
    /// [`COMPLETE_WITHIN`]. Never while something is wrong with all of them together.
    pub(super) fn open(&mut self, has_overlap: bool) {
        let (seen, all) = (self.seen(), UpstreamSet::below(self.all.len()));
        let is_enough = seen == all || !seen.is_empty() && COMPLETE_WITHIN <= self.began.elapsed();
        self.is_open |= is_enough && !has_overlap && self.twins().is_none();
    }

    /// Returns whether the relay serves.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the upstreams of which there is a copy.
    pub(super) fn seen(&self) -> UpstreamSet {
        let seen = self.all.iter().enumerate().filter(|(_, contact)| contact.as_of.is_some());
        seen.map(|(upstream, _)| UpstreamSet::of(upstream)).collect()
    }

    /// Returns as of when all of some upstreams are current: of those that there is a copy of.
    pub(super) fn as_of(&self, set: UpstreamSet) -> Option<Timestamp> {
        self.in_set(set).filter_map(|(_, contact)| contact.as_of()).min()
    }

    /// Returns those of some upstreams that have proved nothing newer for 15 s, and as of when
    /// their copies are.
    pub(super) fn stale(&self, set: UpstreamSet) -> Option<(Timestamp, UpstreamSet)> {
        let stale = || self.in_set(set).filter(|(_, contact)| contact.stale_since().is_some());
        let since = stale().filter_map(|(_, contact)| contact.as_of()).min()?;
        Some((since, stale().map(|(upstream, _)| UpstreamSet::of(upstream)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::{Epoch, Position};
    use crate::watch::{Cursors, Token};

    fn mk_proved(store_id: u64) -> Proved {
        mk_proved_at(Epoch { store_id, losses: 0 }, 1)
    }

    fn mk_proved_at(epoch: Epoch, position: u64) -> Proved {
        let cursors = Arc::new(Cursors::from_iter([Position(position)]));
        Proved::by(&Token::of(epoch, cursors, 1))
    }

    #[tokio::test(start_paused = true)]
    async fn parts_prove_something_together_when_all_are_of_one_history() {
        let mut contacts = UpstreamContacts::new(1, 2);
        let epoch = |losses| Epoch { store_id: 7, losses };
        let mut prove = |part, losses, position| {
            let proved = mk_proved_at(epoch(losses), position);
            contacts.prove((0, part), proved, Timestamp::new(1));
            contacts.advance(0);
            (contacts.proved_by(0), contacts.seen().has(0))
        };
        assert_eq!(prove(0, 0, 5), (None, false));
        let both = mk_proved_at(epoch(0), 5).joined(&mk_proved_at(epoch(0), 9));
        assert_eq!(prove(1, 0, 9), (both, true));
        assert_eq!(prove(0, 1, 12), (None, true));
        let both = mk_proved_at(epoch(1), 12).joined(&mk_proved_at(epoch(1), 11));
        assert_eq!(prove(1, 1, 11), (both, true));
    }

    fn proves(contacts: &mut UpstreamContacts, upstream: usize, at: u64) {
        let proved = mk_proved(upstream as u64);
        assert_eq!(contacts.note_twin(upstream, &proved), None);
        contacts.prove((upstream, 0), proved, Timestamp::new(at));
        contacts.advance(upstream);
        contacts.open(false);
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_serves_when_it_has_a_copy_of_every_upstream() {
        let mut contacts = UpstreamContacts::new(2, 1);
        proves(&mut contacts, 0, 50);
        assert!(!contacts.is_open());
        proves(&mut contacts, 1, 40);
        assert!(contacts.is_open());
        assert_eq!(contacts.as_of(UpstreamSet::below(2)), Some(Timestamp::new(40)));
        assert_eq!(contacts.as_of(UpstreamSet::of(0)), Some(Timestamp::new(50)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_serves_without_an_upstream_that_is_away_for_5_s() {
        let mut contacts = UpstreamContacts::new(2, 1);
        tokio::time::advance(COMPLETE_WITHIN).await;
        contacts.open(false);
        assert!(!contacts.is_open(), "there is no copy");
        proves(&mut contacts, 0, 50);
        assert!(contacts.is_open());
        assert_eq!(contacts.seen(), UpstreamSet::of(0));
        assert_eq!(contacts.as_of(UpstreamSet::below(2)), Some(Timestamp::new(50)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_upstream_that_is_cut_off_is_stale_alone() {
        let mut contacts = UpstreamContacts::new(2, 1);
        proves(&mut contacts, 0, 50);
        proves(&mut contacts, 1, 40);
        tokio::time::advance(STALE_AFTER).await;
        proves(&mut contacts, 0, 60);
        tokio::time::advance(Duration::from_millis(1)).await;
        let stale = Some((Timestamp::new(40), UpstreamSet::of(1)));
        assert_eq!(contacts.stale(UpstreamSet::below(2)), stale);
        assert_eq!(contacts.stale(UpstreamSet::of(1)), stale);
        assert_eq!(contacts.stale(UpstreamSet::of(0)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn two_upstreams_with_one_store_are_noticed() {
        let mut contacts = UpstreamContacts::new(2, 1);
        proves(&mut contacts, 0, 50);
        assert_eq!(contacts.note_twin(1, &mk_proved(0)), Some(0));
        tokio::time::advance(COMPLETE_WITHIN).await;
        contacts.open(false);
        assert_eq!((contacts.twins(), contacts.is_open()), (Some((0, 1)), false));
        proves(&mut contacts, 1, 50);
        assert_eq!((contacts.twins(), contacts.is_open()), (None, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_does_not_begin_with_an_overlap() {
        let mut contacts = UpstreamContacts::new(1, 1);
        contacts.prove((0, 0), mk_proved(0), Timestamp::new(1));
        contacts.advance(0);
        contacts.open(true);
        assert!(!contacts.is_open());
        contacts.open(false);
        contacts.open(true);
        assert!(contacts.is_open(), "it serves what is not concerned");
    }

    #[test]
    fn a_set_has_16_upstreams_at_most() {
        let set = UpstreamSet::below(16);
        assert!(set.has(15) && !set.has(16) && !UpstreamSet::of(16).has(16));
        assert_eq!((UpstreamSet::of(3).only(), set.only()), (Some(3), None));
        assert!(UpstreamSet::below(0).is_empty());
    }
}

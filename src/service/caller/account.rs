//! The accounts of callers: what each uses now. Their number is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::limits::{Class, Limits};
use super::rate::Rate;
use crate::service::caller::outgoing::{self, Room};
use crate::service::caller::{Holder, Kind, Owner, Share};
use crate::service::code::{ApiError, Reason};
use crate::service::log_limit::Sparse;
use crate::sync::lock;

/// Accounts at the same time: a few hundred bytes each. Callers beyond share one account.
pub const ACCOUNTS_MAX: usize = 1 << 16;

/// Shortest time between two searches for accounts without use.
const CLEAR_PERIOD: Duration = Duration::from_secs(1);

/// Shortest time between two log lines about callers at a limit.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// How long a caller waits for its own calls to end.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Renewals and health checks may exceed the limit of open calls by the limit divided by this
/// number.
const RESERVE: usize = 8;

/// The account of one caller.
#[derive(Debug)]
pub struct Account {
    holder: Arc<Holder>,
    /// For the answers of a principal; those of an address count with its connections.
    room: Option<Arc<Room>>,
    calls_max: Option<usize>,
    rates: [Option<Rate>; Class::ALL.len()],
    shared: Arc<Shared>,
}

/// What all accounts use.
#[derive(Debug)]
struct Shared {
    limits: Limits,
    answers: outgoing::Limits,
    start: Instant,
    refused: Sparse,
}

impl Account {
    fn new(owner: Owner, shared: Arc<Shared>) -> Account {
        let limits = &shared.limits;
        let is_local = matches!(&owner, Owner::Peer(peer) if peer.is_local());
        let holds =
            |bound: super::limits::Bound| (!is_local || bound.is_for_local).then_some(bound.max);
        let room = matches!(owner, Owner::Principal(_)).then(|| {
            let outgoing::Limits { per_principal_max, wait_max, .. } = shared.answers;
            let budget = outgoing::Budget::new("answer_bytes_per_principal_max", per_principal_max);
            Room::of_principal(budget, wait_max)
        });
        Account {
            room,
            calls_max: holds(limits.calls_max),
            rates: Class::ALL.map(|class| holds(class.bound(limits)).map(Rate::new)),
            holder: Arc::new(Holder::new(owner)),
            shared,
        }
    }

    /// Returns whose account it is.
    pub fn owner(&self) -> &Owner {
        &self.holder.owner
    }

    /// Returns the count of streams, if the account is that of a principal: streams of an address
    /// are counted with its connections.
    pub fn principal(&self) -> Option<&Arc<Holder>> {
        matches!(self.holder.owner, Owner::Principal(_)).then_some(&self.holder)
    }

    /// Returns the room for the answers of a principal.
    pub fn room(&self) -> Option<&Arc<Room>> {
        self.room.as_ref()
    }

    /// Counts a call or a message against the rate of its class.
    pub fn take(&self, class: Class) -> Result<(), ApiError> {
        let Some(rate) = &self.rates[class as usize] else { return Ok(()) };
        rate.take(self.shared.start.elapsed()).map_err(|wait| {
            let (limit, what) = class.words();
            let max = class.bound(&self.shared.limits).max;
            let text = format!(
                "{} sends more than {max} {what} in a second; send fewer, or several in one \
                 message, and wait as RetryInfo says",
                self.owner()
            );
            self.refused(limit, max, text).retry_after(wait)
        })
    }

    /// Counts a unary call as open until the returned value is dropped.
    pub fn begin(&self, class: Class) -> Result<Option<Share>, ApiError> {
        let Some(max) = self.calls_max else { return Ok(None) };
        let reserve = if class == Class::Heartbeat { max / RESERVE + 1 } else { 0 };
        let with_reserve = max.saturating_add(reserve);
        let mut open = Share::new(&self.holder, None, Kind::Call);
        if open.grow(with_reserve, with_reserve).is_ok() {
            return Ok(Some(open));
        }
        let text = format!(
            "{max} calls of {} are open already; wait for their answers before the next call",
            self.owner()
        );
        Err(self.refused("calls_per_principal_max", max, text).retry_after(RETRY_AFTER))
    }

    /// Returns the refusal of one more connection.
    pub fn too_many_connections(&self) -> ApiError {
        let max = self.shared.limits.connections_max;
        let text = format!(
            "{max} connections of {} are open already; make several calls on one connection",
            self.owner()
        );
        self.refused("connections_per_principal_max", max, text).retry_after(RETRY_AFTER)
    }

    fn refused(&self, limit: &'static str, max: usize, text: String) -> ApiError {
        if let Some(count) = self.shared.refused.note() {
            let who = self.owner();
            tracing::warn!(%who, limit, max, count, "calls of a caller at its limit are refused");
        }
        let problem = ApiError::of_limit(Reason::RateLimited, text, limit, max);
        problem.with("principal", self.owner())
    }

    fn is_in_use(self: &Arc<Account>, now: Duration) -> bool {
        1 < Arc::strong_count(self)
            || 1 < Arc::strong_count(&self.holder)
            || self.room.as_ref().is_some_and(|room| 1 < Arc::strong_count(room))
            || self.rates.iter().flatten().any(|rate| !rate.is_rested(now))
    }
}

/// The accounts of all callers.
pub struct Accounts {
    shared: Arc<Shared>,
    max: usize,
    book: Mutex<Book>,
    /// Of all callers beyond the bound.
    rest: Arc<Account>,
}

#[derive(Default)]
struct Book {
    accounts: HashMap<Owner, Arc<Account>>,
    /// When accounts without use were removed last.
    cleared_at: Duration,
}

impl Accounts {
    /// Creates an empty book with place for `max` accounts.
    pub fn new(limits: Limits, answers: outgoing::Limits, max: usize) -> Accounts {
        let (start, refused) = (Instant::now(), Sparse::new(LOG_PERIOD));
        let shared = Arc::new(Shared { limits, answers, start, refused });
        let rest = Owner::Principal("callers beyond the bound".into());
        let rest = Arc::new(Account::new(rest, shared.clone()));
        Accounts { shared, max, book: Mutex::default(), rest }
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Returns the account of a caller.
    pub fn find(&self, owner: &Owner) -> Arc<Account> {
        let now = self.shared.start.elapsed();
        let mut book = lock(&self.book);
        if let Some(known) = book.accounts.get(owner) {
            return known.clone();
        }
        if self.max <= book.accounts.len() && book.cleared_at + CLEAR_PERIOD <= now {
            book.cleared_at = now;
            book.accounts.retain(|_, account| account.is_in_use(now));
        }
        if self.max <= book.accounts.len() {
            return self.rest.clone();
        }
        let account = Account::new(owner.clone(), self.shared.clone());
        book.accounts.entry(owner.clone()).or_insert(Arc::new(account)).clone()
    }
}

/// The account of a connection's newest call, and the connection that counts for it: calls of one
/// caller on one connection find it without a search.
#[derive(Debug, Default)]
pub struct Slot(Mutex<Option<Counted>>);

type Counted = (Arc<Account>, Option<Share>);

impl Slot {
    /// Returns the account of a caller. The connection counts for it from now on.
    ///
    /// # Errors
    /// If the principal has too many connections.
    pub fn account(&self, owner: &Owner, all: &Accounts) -> Result<Arc<Account>, ApiError> {
        let mut counted = lock(&self.0);
        if let Some((known, _)) = counted.as_ref().filter(|(known, _)| known.owner() == owner) {
            return Ok(known.clone());
        }
        let account = all.find(owner);
        let new = |holder| Share::new(holder, None, Kind::Connection);
        let mut connection = account.principal().map(new);
        if let Some(connection) = &mut connection {
            let max = all.limits().connections_max;
            connection.grow(max, max).map_err(|_| account.too_many_connections())?;
        }
        *counted = Some((account.clone(), connection));
        Ok(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::caller::Peer;
    use crate::service::caller::limits::Bound;

    fn limits() -> Limits {
        let bound = |max| Bound { max, is_for_local: false };
        Limits {
            calls_max: bound(8),
            reports_per_second: bound(1),
            reads_per_second: Bound { max: 1, is_for_local: true },
            ..Limits::default()
        }
    }

    fn principal(name: &str) -> Owner {
        Owner::Principal(name.into())
    }

    #[test]
    fn a_caller_at_its_limits_leaves_room_for_another_and_for_heartbeats() {
        let accounts = Accounts::new(limits(), outgoing::Limits::default(), ACCOUNTS_MAX);
        let one = accounts.find(&principal("token:one"));
        let open: Vec<_> = (0..8).map(|_| one.begin(Class::Read).unwrap()).collect();
        assert!(one.begin(Class::Report).is_err());
        let renewals: Vec<_> = (0..20).map_while(|_| one.begin(Class::Heartbeat).ok()).collect();
        assert_eq!(renewals.len(), 2);
        assert!(accounts.find(&principal("token:other")).begin(Class::Read).is_ok());
        drop((open, renewals));
        assert!(accounts.find(&principal("token:one")).begin(Class::Read).is_ok());
        let taken = (0..5).filter(|_| one.take(Class::Report).is_ok()).count();
        assert_eq!(taken, 2);
        assert!(one.take(Class::Read).is_ok() && one.take(Class::Heartbeat).is_ok());
    }

    #[test]
    fn this_machine_without_identities_has_only_the_limits_that_are_set() {
        let accounts = Accounts::new(limits(), outgoing::Limits::default(), ACCOUNTS_MAX);
        let local = accounts.find(&Owner::Peer(Peer::of("127.0.0.1".parse().unwrap())));
        assert!((0..100).all(|_| local.take(Class::Report).is_ok()));
        assert_eq!((0..100).filter(|_| local.take(Class::Read).is_ok()).count(), 2);
        assert!(matches!(local.begin(Class::Read), Ok(None)));
        let far = accounts.find(&Owner::Peer(Peer::of("10.0.0.1".parse().unwrap())));
        assert_eq!((0..100).filter(|_| far.take(Class::Report).is_ok()).count(), 2);
    }

    #[test]
    fn the_number_of_accounts_is_bounded() {
        let accounts = Accounts::new(limits(), outgoing::Limits::default(), 2);
        let one = accounts.find(&principal("1"));
        let other = accounts.find(&principal("2"));
        one.take(Class::Report).unwrap();
        let third = accounts.find(&principal("3"));
        assert!(Arc::ptr_eq(&third, &accounts.find(&principal("4"))), "they share one");
        drop(other);
        lock(&accounts.book).cleared_at = Duration::ZERO;
        let is_cleared = |owner: &Owner| {
            let now = Duration::from_secs(3600);
            !lock(&accounts.book).accounts[owner].is_in_use(now)
        };
        assert!(!is_cleared(&principal("1")) && is_cleared(&principal("2")));
    }
}

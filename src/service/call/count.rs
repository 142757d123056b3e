//! Counts what each caller uses: connections, open calls, rates of reports, reads, watches and
//! heartbeats, room for answers. A caller at its limit leaves room for the others.
//!
//! Callers on this machine that are no principal are trusted: only limits that an operator sets
//! hold for them.

use http::Request;
use tonic::body::Body;

use super::Access;
use super::body::Held;
use crate::service::caller::outgoing::{self, Reserved, Shares, no_room};
use crate::service::caller::{ACCOUNTS_MAX, Accounts, Caller, Class, Limits, Owner, Share};
use crate::service::code::ApiError;
use crate::service::method::Method;

/// The accounts of all callers.
pub(super) struct Counts {
    accounts: Accounts,
    /// Whether a caller on this machine without an identity has a limit.
    counts_local: bool,
}

impl Counts {
    pub(super) fn new(limits: Limits, answers: outgoing::Limits) -> Counts {
        let bounds = Class::ALL.map(|class| class.bound(&limits));
        let counts_local = bounds.iter().chain([&limits.calls_max]).any(|b| b.is_for_local);
        Counts { accounts: Accounts::new(limits, answers, ACCOUNTS_MAX), counts_local }
    }

    /// Counts a call for its caller. The request names the account from now on. Returns its count
    /// among the open calls; watches and sessions have limits of their own.
    pub(super) fn admit(
        &self,
        request: &mut Request<Body>,
        access: &Access,
        method: &Method,
    ) -> Result<Option<Share>, ApiError> {
        let Some(caller) = request.extensions().get::<Caller>() else { return Ok(None) };
        let owner = match access.principal() {
            Some(principal) => Owner::Principal(principal.to_string().into()),
            None if caller.peer().is_local() && !self.counts_local => return Ok(None),
            None => Owner::Peer(caller.peer()),
        };
        let account = caller.slot().account(&owner, &self.accounts)?;
        account.take(method.class)?;
        // A page is one open call, whatever it reads.
        let is_counted = request.extensions().get::<Reserved>().is_some_and(Reserved::is_open);
        let is_call = method.class != Class::Watch && !is_counted;
        let open = if is_call { account.begin(method.class)? } else { None };
        let caller = caller.with_account(account);
        request.extensions_mut().insert(caller);
        Ok(open)
    }
}

/// Waits until there is room for an answer of `bytes`.
///
/// # Errors
/// If there is none within the limit of the wait.
pub(super) async fn reserve(
    request: &mut Request<Body>,
    bytes: usize,
    open: Option<Share>,
) -> Result<Held, ApiError> {
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return Ok(Held::of(open));
    };
    let of_principal = caller.account().and_then(|account| account.room());
    if let Some(reserved) = request.extensions_mut().remove::<Reserved>() {
        let taken = reserved.of_principal(of_principal, open).await;
        return taken.map(|()| Held::default()).map_err(|full| no_room(&full));
    }
    let shares = Shares::wait(caller.room(), of_principal, bytes).await;
    Ok(Held { shares: shares.map_err(|full| no_room(&full))?, _open: open })
}

//! The layer that counts what each caller uses: connections, open calls, and rates of reports,
//! reads, watches and heartbeats. A caller at its limit leaves room for the others.
//!
//! ```text
//!  guard --> account --> intake --> handler
//!            Account of the principal, or of the address without one; kept in the connection
//!            rate of the class? open calls? --no--> RATE_LIMITED with the limit and RetryInfo
//!            room for a long answer? -------no, after a wait--'
//! ```
//!
//! Callers on this machine that are no principal are trusted: only limits that an operator sets
//! hold for them.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use crate::service::call::Answering;
use crate::service::call::guard::Access;
use crate::service::call::held::HeldBody;
use crate::service::caller::outgoing::{self, HeldAnswer, Reserved, no_room};
use crate::service::caller::{ACCOUNTS_MAX, Accounts, Class, Classes, Counted, Limits, classes};
use crate::service::caller::{Caller, Owner, Share};
use crate::service::code::ApiError;

/// Counts the calls of each caller.
#[derive(Clone)]
pub struct Accounting<S> {
    inner: S,
    rules: Arc<Rules>,
}

/// What the layer applies.
struct Rules {
    accounts: Accounts,
    classes: Classes,
    /// Whether a caller on this machine without an identity has a limit.
    counts_local: bool,
}

impl<S> Accounting<S> {
    /// Counts the calls that reach `inner`.
    pub fn new(limits: Limits, answers: outgoing::Limits, inner: S) -> Accounting<S> {
        let bounds = Class::ALL.map(|class| class.bound(&limits));
        let counts_local = bounds.iter().chain([&limits.calls_max]).any(|b| b.is_for_local);
        let (accounts, classes) = (Accounts::new(limits, answers, ACCOUNTS_MAX), classes());
        Accounting { inner, rules: Arc::new(Rules { accounts, classes, counts_local }) }
    }
}

impl<S> Service<Request<Body>> for Accounting<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Answering>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Admitted { open, answer } = match self.rules.admit(&mut request) {
            Ok(admitted) => admitted,
            Err(problem) => {
                let answer = Status::from(problem).into_http();
                return Either::Right(Box::pin(std::future::ready(Ok(answer))));
            }
        };
        if let Some(bytes) = answer
            && let Some(caller) = request.extensions().get::<Caller>().cloned()
        {
            let inner = self.inner.clone();
            return Either::Right(Box::pin(long(inner, request, caller, bytes, open)));
        }
        let answer = self.inner.call(request);
        let Some(open) = open else { return Either::Left(answer) };
        Either::Right(Box::pin(async move {
            Ok(answer.await?.map(|body| Body::new(HeldBody::new(body, open))))
        }))
    }
}

/// Answers a call whose answer may be long, once there is room for it.
async fn long<S>(
    mut inner: S,
    mut request: Request<Body>,
    caller: Caller,
    bytes: usize,
    open: Option<Share>,
) -> Result<Response<Body>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let of_principal = caller.account().and_then(|account| account.room());
    if let Some(reserved) = request.extensions_mut().remove::<Reserved>() {
        return match reserved.of_principal(of_principal, open).await {
            Ok(()) => inner.call(request).await,
            Err(full) => Ok(Status::from(no_room(&full)).into_http()),
        };
    }
    // That of the principal first: a wait for it takes nothing from others.
    let shares = async {
        let of_principal = match of_principal {
            Some(room) => Some(outgoing::Share::wait(room, bytes).await?),
            None => None,
        };
        let of_connection = outgoing::Share::wait(caller.room(), bytes).await?;
        Ok((Some(of_connection), of_principal))
    };
    match shares.await {
        Ok(shares) => {
            let answer = inner.call(request).await?;
            Ok(answer.map(|body| Body::new(HeldAnswer::new(body, shares, open))))
        }
        Err(full) => Ok(Status::from(no_room(&full)).into_http()),
    }
}

/// What is known of a call that may start.
struct Admitted {
    /// Its count among the open calls.
    open: Option<Share>,
    /// Bytes of its answer, if it may be long.
    answer: Option<usize>,
}

impl Rules {
    /// Counts a call for its caller. The request names the account from now on.
    fn admit(&self, request: &mut Request<Body>) -> Result<Admitted, ApiError> {
        // The router refuses a method that does not exist.
        let Some(&Counted { class, is_call, answer }) = self.classes.get(request.uri().path())
        else {
            return Ok(Admitted { open: None, answer: None });
        };
        let uncounted = Ok(Admitted { open: None, answer });
        let Some(caller) = request.extensions().get::<Caller>() else { return uncounted };
        let owner = match request.extensions().get::<Access>().and_then(Access::principal) {
            Some(principal) => Owner::Principal(principal.to_string().into()),
            None if caller.peer().is_local() && !self.counts_local => return uncounted,
            None => Owner::Peer(caller.peer()),
        };
        let account = caller.slot().account(&owner, &self.accounts)?;
        account.take(class)?;
        // A page is one open call, whatever it reads.
        let is_counted = request.extensions().get::<Reserved>().is_some_and(Reserved::is_open);
        let open = if is_call && !is_counted { account.begin(class)? } else { None };
        let caller = caller.with_account(account);
        request.extensions_mut().insert(caller);
        Ok(Admitted { open, answer })
    }
}

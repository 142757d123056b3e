//! What the caller of a call may do, for as long as the call is open.
//!
//! A handler gets its request only together with the access ([`Access::open`]), and names of
//! applications only from functions of `convert` that ask the access.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Extensions;
use tonic::Request;

use super::Guard;
use crate::domain::name::AppName;
use crate::security::identity::{Credentials, Identity, Principal};
use crate::security::role::right::Right;
use crate::security::role::{Grants, Need};
use crate::service::code::{ApiError, Reason};
use crate::service::method::Method;
use crate::watch::Scope;

/// The caller of a call: an extension of every request. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    pub(super) state: State,
    /// What is served; `None`: everything.
    pub(super) extent: Option<Arc<dyn Extent>>,
}

/// What a relay serves at a moment.
pub trait Extent: Send + Sync {
    /// Checks that a namespace is served; `None`: that all of them are.
    fn check(&self, namespace: Option<&str>) -> Result<(), ApiError>;
}

#[derive(Clone)]
pub(super) enum State {
    /// The server has no protection.
    Unprotected,
    /// The caller is known.
    Known(Arc<CallerState>),
    /// The caller presents nothing, and the method allows that.
    Unknown,
}

/// A caller that is known, and the method that it calls.
pub(super) struct CallerState {
    pub(super) guard: Arc<Guard>,
    /// The files in force when the call was admitted.
    pub(super) version: u64,
    pub(super) credentials: Credentials,
    pub(super) identity: Identity,
    pub(super) grants: Grants,
    pub(super) row: &'static Method,
}

/// What a caller may read. Callers with equal rights are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reader {
    /// Every application: the server has no protection.
    Everything,
    /// The applications of these grants.
    Granted(Grants),
}

impl Reader {
    /// Returns whether an application may be read, whether or not it exists.
    pub fn may_read(&self, app: &AppName) -> bool {
        match self {
            Reader::Everything => true,
            Reader::Granted(grants) => grants.allow(Need::Read(app.namespace(), app.application())),
        }
    }

    /// Returns whether all applications of a namespace may be read.
    pub fn may_list(&self, namespace: &str) -> bool {
        match self {
            Reader::Everything => true,
            Reader::Granted(grants) => grants.allow(Need::List(Some(namespace))),
        }
    }
}

impl Access {
    /// Takes a request apart.
    pub fn open<R>(request: Request<R>) -> (Access, R) {
        let (_, extensions, wire) = request.into_parts();
        (Access::of(&extensions), wire)
    }

    /// Returns the access of a call. A call that did not pass the guard may do nothing.
    pub fn of(extensions: &Extensions) -> Access {
        extensions
            .get::<Access>()
            .cloned()
            .unwrap_or(Access { state: State::Unknown, extent: None })
    }

    /// Returns the access of any caller of a server without protection.
    pub fn unprotected() -> Access {
        Access { state: State::Unprotected, extent: None }
    }

    /// Returns the caller, if it is known.
    pub(in crate::service) fn principal(&self) -> Option<&Principal> {
        match &self.state {
            State::Known(caller) => Some(&caller.identity.principal),
            State::Unprotected | State::Unknown => None,
        }
    }

    /// Checks the right of the method for an application and the unit of the request; `operates`
    /// if the request asks for what only an operator may.
    pub(in crate::service) fn check(
        &self,
        app: &AppName,
        unit: &str,
        operates: bool,
    ) -> Result<(), ApiError> {
        let (namespace, application) = (app.namespace(), app.application());
        let State::Known(caller) = &self.state else {
            return self.unless_known().and_then(|()| self.check_extent(Some(namespace)));
        };
        let operate = Need::Operate(namespace, application);
        let need = match caller.row.right {
            _ if operates => operate,
            Right::Operate => operate,
            Right::UnitOrOperator if unit.is_empty() => operate,
            Right::Unit | Right::UnitOrOperator => Need::Act(namespace, application, unit),
            Right::Data => Need::Data(namespace, application),
            Right::Anyone | Right::Known | Right::Read | Right::List => {
                Need::Read(namespace, application)
            }
        };
        // Last: only a caller with a right in a namespace may learn where it is.
        caller.check(need).and_then(|()| self.check_extent(Some(namespace)))
    }

    /// Checks the right to read all applications of a namespace; `None`: of all namespaces.
    pub(in crate::service) fn check_list(&self, namespace: Option<&str>) -> Result<(), ApiError> {
        match &self.state {
            State::Known(caller) => caller.check(Need::List(namespace))?,
            _ => self.unless_known()?,
        }
        self.check_extent(namespace)
    }

    /// Checks the right to watch all applications of a scope, whether they exist or not.
    pub(in crate::service) fn check_scope(&self, scope: &Scope) -> Result<(), ApiError> {
        match scope {
            Scope::All => self.check_list(None),
            Scope::Namespace(namespace) => self.check_list(Some(namespace)),
            Scope::Applications(apps) => apps.iter().try_for_each(|app| self.check(app, "", false)),
        }
    }

    /// Checks that a namespace is served; `None`: that all of them are.
    pub(in crate::service) fn check_extent(&self, namespace: Option<&str>) -> Result<(), ApiError> {
        self.extent.as_ref().map_or(Ok(()), |extent| extent.check(namespace))
    }

    fn unless_known(&self) -> Result<(), ApiError> {
        match &self.state {
            State::Unknown => Err(super::refusal::missing()),
            State::Unprotected | State::Known(_) => Ok(()),
        }
    }

    /// Returns what the caller may read now. A session or a watch ends when it loses a right.
    pub(in crate::service) fn reader(&self) -> Reader {
        match &self.state {
            State::Unprotected => Reader::Everything,
            State::Known(caller) => Reader::Granted(caller.grants.clone()),
            State::Unknown => Reader::Granted(Grants::default()),
        }
    }

    /// Returns whether the access may end before the call does.
    pub(in crate::service::call) fn may_end(&self) -> bool {
        matches!(self.state, State::Known(_))
    }

    /// Returns why an answer must not reach the caller any more: its proof has ended, or it has
    /// lost a right since the call was admitted.
    pub(in crate::service::call) fn problem(&self) -> Option<ApiError> {
        match &self.state {
            State::Known(caller) => caller.is_due().then(|| caller.problem()).flatten(),
            State::Unprotected | State::Unknown => None,
        }
    }

    /// Resolves when the caller is not known any more, or has lost a right, with the reason.
    pub(in crate::service::call) async fn ended(&self) -> ApiError {
        match &self.state {
            State::Known(caller) => caller.ended().await,
            State::Unprotected | State::Unknown => std::future::pending().await,
        }
    }
}

impl CallerState {
    fn check(&self, need: Need<'_>) -> Result<(), ApiError> {
        let method = self.row.name;
        if self.grants.allow(need) {
            if let Need::Operate(namespace, application) = need {
                let principal = &self.identity.principal;
                tracing::info!(%principal, method, namespace, application, "an operator calls");
            }
            return Ok(());
        }
        Err(self.guard.refusals.denied(&self.identity.principal, self.row, Some(need)))
    }

    /// Returns whether something may have changed since the call was admitted.
    fn is_due(&self) -> bool {
        self.guard.protection.version() != self.version
            || self.identity.ends.is_some_and(|ends| ends <= SystemTime::now())
    }

    async fn ended(&self) -> ApiError {
        let mut changes = self.guard.protection.changes();
        // Something may have changed since the call was admitted.
        let mut is_due = *changes.borrow_and_update() != self.version;
        loop {
            if let Some(problem) = is_due.then(|| self.problem()).flatten() {
                return problem;
            }
            is_due = true;
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return expired();
                    }
                }
                () = until(self.identity.ends) => {}
            }
        }
    }

    /// Returns why the call has to end now.
    fn problem(&self) -> Option<ApiError> {
        let identity = self.guard.protection.identify(&self.credentials).ok();
        let same = identity.filter(|now| now.principal == self.identity.principal);
        let Some(now) = same else { return Some(expired()) };
        let is_kept = self.grants.are_within(&self.guard.protection.grants(&now.principal));
        (!is_kept).then(|| {
            let text = "the rights of this caller have changed; call again";
            ApiError::new(Reason::RightsChanged, text)
        })
    }
}

/// Shortest and longest sleep until a time of the wall clock: that clock may be set.
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Resolves at a time of the wall clock.
async fn until(ends: Option<SystemTime>) {
    let Some(ends) = ends else { return std::future::pending().await };
    while let Ok(left) = ends.duration_since(SystemTime::now()) {
        tokio::time::sleep(left.clamp(WAIT_MIN, WAIT_MAX)).await;
    }
}

fn expired() -> ApiError {
    let text = "the credentials of this caller have expired or were revoked; call again with \
                valid ones";
    ApiError::new(Reason::CredentialsExpired, text)
}

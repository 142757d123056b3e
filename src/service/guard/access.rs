//! What the caller of a call may do, for as long as the call is open.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::security::Protection;
use crate::security::identity::{Credentials, Identity};
use crate::service::code::{ApiError, Reason};

/// The caller of a call: an extension of every request. Cheap to clone.
#[derive(Clone)]
pub struct Access(Option<Arc<CallerState>>);

struct CallerState {
    protection: Arc<Protection>,
    credentials: Credentials,
    identity: Identity,
}

impl Access {
    /// Returns the access of any caller of a server without protection.
    pub(super) fn unprotected() -> Access {
        Access(None)
    }

    /// Returns the access of a caller that is known.
    pub(super) fn known(
        protection: Arc<Protection>,
        credentials: Credentials,
        identity: Identity,
    ) -> Access {
        Access(Some(Arc::new(CallerState { protection, credentials, identity })))
    }

    /// Resolves when the caller is not known any more, with the reason.
    pub(super) async fn ended(&self) -> ApiError {
        match &self.0 {
            Some(known) => known.ended().await,
            None => std::future::pending().await,
        }
    }
}

impl CallerState {
    async fn ended(&self) -> ApiError {
        let mut changes = self.protection.changes();
        // Something may have changed since the call was admitted.
        while self.is_valid() {
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return expired();
                    }
                }
                () = until(self.identity.ends) => {}
            }
        }
        expired()
    }

    fn is_valid(&self) -> bool {
        let identity = self.protection.identify(&self.credentials);
        identity.is_ok_and(|identity| identity.principal == self.identity.principal)
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

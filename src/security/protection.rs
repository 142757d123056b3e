//! What protects the calls of this server, and the sign that it has changed.

use std::sync::Arc;

use tokio::sync::watch;

use super::Reloaded;
use super::identity::jwt::Issuer;
use super::identity::{Authenticator, Credentials, Identity, Principal, Refusal};
use super::reload::{FileSet, Reload};
use super::role::{Grants, RoleFile};

/// The protection of the calls. Without a way to know callers it is off.
#[derive(Default)]
pub struct Protection {
    authenticator: Authenticator,
    roles: Option<Arc<Reloaded<RoleFile>>>,
    version: watch::Sender<u64>,
}

impl Protection {
    /// Creates the protection. Without roles, callers that are known may do nothing.
    pub fn new(authenticator: Authenticator, roles: Option<Arc<Reloaded<RoleFile>>>) -> Protection {
        Protection { authenticator, roles, version: watch::Sender::new(0) }
    }

    /// Returns whether callers have to prove who they are.
    pub fn is_on(&self) -> bool {
        self.authenticator.knows_callers()
    }

    /// Identifies a caller by the newest files.
    ///
    /// # Errors
    /// If the caller is not known.
    pub fn identify(&self, given: &Credentials) -> Result<Identity, Refusal> {
        self.authenticator.identify(given)
    }

    /// Returns the grants to a principal by the newest file.
    pub fn grants(&self, principal: &Principal) -> Grants {
        self.roles.as_ref().map_or_else(Grants::default, |roles| roles.get().of(principal))
    }

    /// Returns a number that rises with each change of the files. It rises with each change.
    pub fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Returns a receiver that is notified of each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Notifies all open streams of new files.
    pub fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// Returns the issuers whose keys come from a URL.
    pub fn remote_issuers(&self) -> impl Iterator<Item = &Arc<Reloaded<Issuer>>> {
        let issuers = self.authenticator.issuers.iter();
        issuers.filter(|issuer| issuer.source().paths().is_empty())
    }

    /// Returns the files of the protection, for [`follow`](super::reload::follow).
    pub fn files(&self) -> Vec<Arc<dyn Reload>> {
        let tokens = self.authenticator.tokens.iter().map(|tokens| tokens.clone() as _);
        let issuers = self.authenticator.issuers.iter().map(|issuer| issuer.clone() as _);
        let roles = self.roles.iter().map(|roles| roles.clone() as _);
        tokens.chain(issuers).chain(roles).collect()
    }
}

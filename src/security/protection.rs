//! What protects the calls of this server, and the sign that it has changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::Reloaded;
use super::identity::certificate::ClientCertificate;
use super::identity::jwt::{self, Issuer};
use super::identity::token::{PREFIX, TokenFile};
use super::identity::{Authorization, Credentials, Identity, Principal, Refusal};
use super::reload::{FileSet, Reload};
use super::role::{Grants, RoleFile};
use super::tls::{Files, Tls};

/// The protection of the calls. Without a way to know callers it is off.
#[derive(Default)]
pub struct Protection {
    /// Static tokens.
    pub tokens: Option<Arc<Reloaded<TokenFile>>>,
    /// Issuers of JWT, each with its name.
    pub issuers: Vec<Arc<Reloaded<Issuer>>>,
    /// Verifies client certificates; `None`: clients have none.
    pub certificates: Option<Tls>,
    /// The grants. Without them, callers that are known may do nothing.
    pub roles: Option<Arc<Reloaded<RoleFile>>>,
    /// The number of changes of the files.
    pub version: watch::Sender<u64>,
}

impl Protection {
    /// Returns whether callers have to prove who they are.
    pub fn is_on(&self) -> bool {
        self.tokens.is_some() || !self.issuers.is_empty() || self.certificates.is_some()
    }

    /// Identifies a caller by the newest files. Called again for an open stream, so it checks
    /// everything each time.
    ///
    /// # Errors
    /// If the caller is not known, or presents two things that differ.
    pub fn identify(&self, given: &Credentials) -> Result<Identity, Refusal> {
        let by_token = match &given.authorization {
            Authorization::Absent => None,
            Authorization::Unusable => return Err(Refusal::BadHeader),
            Authorization::Bearer(token) => Some(self.by_token(token)?),
        };
        let certificate = given.certificate.as_ref();
        let by_certificate = certificate.map(|given| self.by_certificate(given)).transpose()?;
        match (by_token, by_certificate) {
            (None, None) => Err(Refusal::Nothing),
            (Some(one), None) | (None, Some(one)) => Ok(one),
            (Some(one), Some(other)) if one.principal == other.principal => {
                let ends = [one.ends, other.ends].into_iter().flatten().min();
                Ok(Identity { ends, ..one })
            }
            (Some(_), Some(_)) => Err(Refusal::Ambiguous),
        }
    }

    fn by_token(&self, token: &str) -> Result<Identity, Refusal> {
        if token.starts_with(PREFIX) {
            let tokens = self.tokens.as_ref().ok_or(Refusal::UnknownToken)?;
            return tokens.get().identify(token, SystemTime::now());
        }
        jwt::identify(&self.issuers, token)
    }

    fn by_certificate(&self, certificate: &ClientCertificate) -> Result<Identity, Refusal> {
        let tls = self.certificates.as_ref().ok_or(Refusal::OldCertificate)?;
        if !tls.trusts(&certificate.chain) {
            return Err(Refusal::OldCertificate);
        }
        let principal = certificate.principal.clone().map_err(Refusal::BadCertificate)?;
        Ok(Identity { principal, ends: Some(certificate.ends) })
    }

    /// Returns the grants to a principal by the newest file.
    pub fn grants(&self, principal: &Principal) -> Grants {
        self.roles.as_ref().map_or_else(Grants::default, |roles| roles.get().of(principal))
    }

    /// Returns a number that rises with each change of the files.
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
        self.issuers.iter().filter(|issuer| issuer.source().paths().is_empty())
    }

    /// Returns the time since each kind of files was last read and valid; of several sets the
    /// longest, and 0 for a kind that the server does not have.
    pub fn ages(all: &[Arc<dyn Reload>]) -> BTreeMap<&'static str, Duration> {
        let kinds = [Files::NAME, TokenFile::NAME, Issuer::NAME, RoleFile::NAME];
        let mut ages: BTreeMap<_, _> = kinds.map(|kind| (kind, Duration::ZERO)).into();
        for each in all {
            let age = ages.entry(each.name()).or_default();
            *age = each.age().max(*age);
        }
        ages
    }

    /// Returns the files of the protection, for [`follow`](super::reload::follow).
    pub fn files(&self) -> Vec<Arc<dyn Reload>> {
        let tokens = self.tokens.iter().map(|tokens| tokens.clone() as _);
        let issuers = self.issuers.iter().map(|issuer| issuer.clone() as _);
        let roles = self.roles.iter().map(|roles| roles.clone() as _);
        tokens.chain(issuers).chain(roles).collect()
    }
}

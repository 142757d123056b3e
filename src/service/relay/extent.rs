//! What a relay serves now, and the refusals of what it does not: a namespace that two upstreams
//! have, and one that an upstream may have which was not reached yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::claims::Overlap;
use super::contact::UpstreamSet;
use super::{Relay, Upstream};
use crate::domain::name::AppName;
use crate::service::call::{Extent, Reader};
use crate::service::code::{ApiError, Reason};
use crate::sync::lock;
use crate::watch::Scope;

/// How long a caller waits before another try at an upstream that is away.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallSubject {
    /// These applications.
    Applications(Vec<AppName>),
    /// A namespace; `None`: all of them.
    Namespace(Option<Arc<str>>),
    /// A name that none can have, and what is wrong with it.
    Invalid(String),
}

impl Extent for Relay {
    fn check(&self, namespace: Option<&str>) -> Result<(), ApiError> {
        let is_own = |wanted: &str| self.namespaces.iter().any(|own| **own == *wanted);
        if !self.namespaces.is_empty() && !namespace.is_some_and(is_own) {
            let (names, upstream) = (self.namespaces.join(", "), self.urls(self.all(), " or "));
            let text = format!("this relay serves {names} only; call {upstream} for others");
            return Err(self.read_only(text, self.all()));
        }
        match namespace {
            _ if !self.is_union() => Ok(()),
            Some(namespace) => self.check_namespace(namespace),
            None => self.problem_of_all().map_or(Ok(()), Err),
        }
    }
}

impl Relay {
    /// Returns what the relay serves; `None`: everything, always.
    pub fn extent(self: &Arc<Self>) -> Option<Arc<dyn Extent>> {
        let is_limited = self.is_union() || !self.namespaces.is_empty();
        is_limited.then(|| self.clone() as Arc<dyn Extent>)
    }

    fn check_namespace(&self, namespace: &str) -> Result<(), ApiError> {
        let claims = self.claims();
        let (overlap, owner) = (claims.overlap(namespace), claims.owner(namespace));
        drop(claims);
        let seen = lock(&self.contacts).seen();
        match overlap {
            Some(overlap) => Err(self.overlapping(&overlap)),
            None if owner.is_some_and(|owner| seen.has(owner)) => Ok(()),
            None => self.unseen().map_or(Ok(()), Err),
        }
    }

    /// Returns why nothing about all namespaces is served.
    fn problem_of_all(&self) -> Option<ApiError> {
        self.conflict().or_else(|| self.unseen())
    }

    /// Returns what two upstreams both have.
    pub(super) fn conflict(&self) -> Option<ApiError> {
        let twins = lock(&self.contacts).twins();
        if let Some((one, other)) = twins.filter(|_| !self.is_ready()) {
            let error = ApiError::new(Reason::NamespaceOverlap, self.same_store(one, other));
            return Some(self.of_two(error, (one, other)));
        }
        let overlap = self.claims().overlaps().next();
        overlap.map(|overlap| self.overlapping(&overlap))
    }

    /// Checks that an answer over all namespaces can be right for a reader.
    pub fn whole(&self, reader: &Reader) -> Result<(), ApiError> {
        if !self.is_union() {
            return Ok(());
        }
        let overlap = self.claims().overlaps().find(|each| reader.may_list(&each.namespace));
        let problem = overlap.map(|overlap| self.overlapping(&overlap));
        problem.or_else(|| self.unseen()).map_or(Ok(()), Err)
    }

    /// Returns why a watch has to end: a namespace that it covers has come to have two upstreams.
    pub fn overlap_in(&self, scope: &Scope) -> Option<ApiError> {
        if !self.has_overlap.load(Ordering::Acquire) {
            return None;
        }
        let claims = self.claims();
        let overlap = match scope {
            Scope::All => claims.overlaps().next(),
            Scope::Namespace(namespace) => claims.overlap(namespace),
            Scope::Applications(apps) => {
                apps.iter().find_map(|app| claims.overlap(app.namespace()))
            }
        };
        drop(claims);
        overlap.map(|overlap| self.overlapping(&overlap))
    }

    /// Returns the refusal of a read before the relay serves.
    pub(super) fn not_ready(&self) -> ApiError {
        self.problem_of_all().unwrap_or_else(|| self.unavailable(self.all()))
    }

    /// Returns the refusal of what an upstream may have of which there is no copy yet.
    fn unseen(&self) -> Option<ApiError> {
        let seen = lock(&self.contacts).seen();
        let unseen = (0..self.upstreams.len()).filter(|upstream| !seen.has(*upstream));
        let unseen: UpstreamSet = unseen.map(UpstreamSet::of).collect();
        (!unseen.is_empty()).then(|| self.unavailable(unseen))
    }

    /// Returns the refusal of a read while upstreams are away.
    pub(super) fn unavailable(&self, set: UpstreamSet) -> ApiError {
        let contacts = lock(&self.contacts);
        let about = contacts.iter().enumerate().filter(|(upstream, _)| set.has(*upstream));
        let why = about.map(|(upstream, contact)| {
            let (url, problem) = (self.url(upstream), &contact.problem);
            match (contact.as_of(), contact.stale_since()) {
                (None, _) => format!("no proved copy of {url} yet: {problem}"),
                (Some(_), Some(since)) => {
                    format!("stale since {}: {url}: {problem}", since.to_utc())
                }
                (Some(_), None) => format!("copy of {url}"),
            }
        });
        let why = why.collect::<Vec<_>>().join("; ");
        let text = format!("the upstream of this relay does not answer, try again; {why}");
        ApiError::new(Reason::UpstreamUnavailable, text)
            .with("upstream", self.urls(set, ", "))
            .retry_after(RETRY_AFTER)
    }

    fn overlapping(&self, overlap: &Overlap) -> ApiError {
        let Overlap { namespace, upstreams } = overlap;
        let (one, other) = (self.url(upstreams.0), self.url(upstreams.1));
        let text = format!(
            "namespace {namespace} is at {one} and at {other}, and a relay serves no namespace of \
             two upstreams; delete its applications at one of them"
        );
        let error = ApiError::new(Reason::NamespaceOverlap, text).with("namespace", namespace);
        self.of_two(error, *upstreams)
    }

    pub(super) fn same_store(&self, one: usize, other: usize) -> String {
        let (one, other) = (self.url(one), self.url(other));
        format!(
            "{one} and {other} lead to one store, so each of its namespaces would have two \
             upstreams; name one address for all servers of a store"
        )
    }

    fn of_two(&self, error: ApiError, (one, other): (usize, usize)) -> ApiError {
        let error = error.with("upstream", self.url(one)).with("other_upstream", self.url(other));
        error.retry_after(RETRY_AFTER)
    }

    /// Returns the refusal of what an upstream does, with its address, or those that may.
    pub(super) fn read_only(&self, text: String, set: UpstreamSet) -> ApiError {
        ApiError::new(Reason::RelayReadOnly, text).with("upstream", self.urls(set, ", "))
    }

    /// Returns the refusal of a watch with units.
    pub fn without_units(&self, scope: &Scope) -> ApiError {
        let set = self.upstreams_of_scope(scope);
        let upstream = self.urls(set, " or ");
        let text =
            format!("a relay does not follow units; watch without include_units, or at {upstream}");
        self.read_only(text, set)
    }

    /// Returns the only upstream that can answer a call about this.
    pub(super) fn route(&self, named: &CallSubject) -> Result<usize, ApiError> {
        if !self.is_union() {
            return Ok(0);
        }
        let homes: Vec<Option<usize>> = match named {
            CallSubject::Applications(apps) => apps.iter().map(|app| self.home(app)).collect(),
            CallSubject::Namespace(Some(namespace)) => vec![self.claims().owner(namespace)],
            CallSubject::Namespace(None) => (0..self.upstreams.len()).map(Some).collect(),
            // No upstream gets the token of a caller for it.
            CallSubject::Invalid(wrong) => {
                return Err(ApiError::new(Reason::InvalidName, wrong.as_str()));
            }
        };
        let known: UpstreamSet = homes.iter().flatten().copied().map(UpstreamSet::of).collect();
        match known.only() {
            Some(only) if homes.iter().all(Option::is_some) => Ok(only),
            _ => Err(self.undetermined(known, homes.iter().any(Option::is_none))),
        }
    }

    /// Returns the upstream that has an application, or had it before it was deleted.
    pub(super) fn home(&self, app: &AppName) -> Option<usize> {
        let owner = self.claims().owner(app.namespace());
        owner.or_else(|| self.hub.tombstone(app).map(|entry| usize::from(entry.bucket.0)))
    }

    /// Returns the refusal of a call that none or several upstreams can answer.
    fn undetermined(&self, known: UpstreamSet, is_any_unknown: bool) -> ApiError {
        if let Some(unseen) = self.unseen().filter(|_| is_any_unknown) {
            return unseen;
        }
        let text = match is_any_unknown {
            true => format!(
                "no upstream of this relay has an application in this namespace; ask the one that \
                 had it: {}",
                self.urls(self.all(), " or ")
            ),
            false => format!(
                "one upstream answers this call, and what it names is at {}; ask for one namespace \
                 at a time",
                self.urls(known, " and at ")
            ),
        };
        let set = if is_any_unknown { self.all() } else { known };
        let error = ApiError::new(Reason::UpstreamUndetermined, text);
        error.with("upstream", self.urls(set, ", "))
    }

    /// Returns the upstream with this number.
    pub(super) fn upstream(&self, upstream: usize) -> Option<&Upstream> {
        self.upstreams.get(upstream)
    }
}

//! Open errors of several applications: as a list, and grouped by target.
//!
//! ```text
//!  hub: applications with open errors that the caller may read, by name
//!   |-- each as its task has it, until a page is full ----------> faults
//!   '-- each as its task has it, one group at a time: Targets --> targets
//! ```

mod targets;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use tonic::{Request, Status};

use crate::domain::app::AppState;
use crate::domain::fault::FaultKey;
use crate::domain::name::{AppName, UnitName};
use crate::domain::revision::Revision;
use crate::proto::v1;
use crate::service::call::{Access, Reader};
use crate::service::code::{ApiError, Reason};
use crate::service::convert::{self, PAGE_BYTES_MAX, Page, framed};
use crate::service::grpc::faults;
use crate::service::grpc::handlers::Handlers;
use crate::watch::{Entry, Hub};

use targets::{Place, TARGETS_MAX, Target, Targets, TooManyTargets, seen};

/// Applications with open errors that one answer groups. Each of them is read; one that is not in
/// memory is loaded, and stays there for some minutes.
const GROUPED_MAX: usize = 10_000;

/// Open errors that one answer groups: a second of work.
const FAULTS_MAX: u64 = 1_000_000;

/// Applications that are read at the same time.
const READS_MAX: usize = 16;

/// Applications of a list that are looked up together.
const BATCH: usize = 64;

/// The applications of a request: of one namespace or of all, as far as the caller may read them.
struct Many {
    namespace: Option<Arc<str>>,
    reader: Reader,
}

impl Many {
    fn has(&self, app: &AppName) -> bool {
        let is_asked = self.namespace.as_deref().is_none_or(|name| app.namespace() == name);
        is_asked && self.reader.may_read(app)
    }

    /// Returns the first applications with open errors after a name.
    fn after(&self, hub: &Hub, app: Option<&AppName>, count_max: usize) -> Vec<Arc<Entry>> {
        let wanted = |entry: &Entry| entry.kept().has_faults() && self.has(&entry.app);
        hub.list_where(self.namespace.as_deref(), app, &wanted, count_max)
    }

    /// Returns what a page token is bound to.
    fn asked(&self) -> [&str; 1] {
        [self.namespace.as_deref().unwrap_or("-")]
    }
}

impl Handlers {
    /// Answers a `ListFaults`.
    pub(super) async fn list_of_faults(
        &self,
        request: Request<v1::ListFaultsRequest>,
    ) -> Result<v1::ListFaultsResponse, Status> {
        if !request.get_ref().application.is_empty() {
            return self.faults_of_one(request).await;
        }
        let (access, wire) = Access::open(request);
        let many = Many { namespace: convert::faults_of_many(&wire)?, reader: access.reader() };
        match wire.group_by_target {
            true => self.targets_of_many(&many, &wire).await,
            false => self.faults_of_many(&many, &wire).await,
        }
    }

    async fn faults_of_one(
        &self,
        request: Request<v1::ListFaultsRequest>,
    ) -> Result<v1::ListFaultsResponse, Status> {
        let (app, wire, unit) = convert::open(request, |fields, wire| {
            Some(fields.unit_or_application("unit", &wire.unit))
        })?;
        let asked = [&app.to_string(), unit.as_str()];
        let (size, token) = (wire.page_size, &wire.page_token);
        if wire.group_by_target {
            let page = Page::<Place>::open("ListFaults by target", &asked, size, token)?;
            let group = |state: &AppState| seen(faults::stored(state, &unit, None));
            let seen = self.reads.read(&app, wire.min_revision, group).await?;
            let mut targets = Targets::default();
            targets.add(&app, seen).map_err(too_many_targets)?;
            return Ok(answer_by_target(targets, &page));
        }
        let page = Page::open("ListFaults", &asked, size, token)?;
        let detail = wire.include_internal_detail;
        let list =
            |state: &AppState| page.fill(faults::of(state, &unit, page.after.as_ref(), detail));
        let (faults, next_page_token) = self.reads.read(&app, wire.min_revision, list).await?;
        Ok(v1::ListFaultsResponse { faults, next_page_token, targets: Vec::new() })
    }

    async fn faults_of_many(
        &self,
        many: &Many,
        wire: &v1::ListFaultsRequest,
    ) -> Result<v1::ListFaultsResponse, Status> {
        let (size, token) = (wire.page_size, &wire.page_token);
        let page = Page::<(AppName, FaultKey)>::open("ListFaults", &many.asked(), size, token)?;
        let mut rows = Rows { count_max: page.size + 1, ..Rows::default() };
        let mut last = None;
        if let Some((app, key)) = &page.after {
            // The rest of the application that the last page ended with.
            if many.has(app) && self.parts.hub.get(app).is_some() {
                self.take_faults(app, Some(key), &mut rows).await?;
            }
            last = Some(app.clone());
        }
        while !rows.are_enough() {
            let entries = many.after(&self.parts.hub, last.as_ref(), BATCH);
            let Some(newest) = entries.last() else { break };
            last = Some(newest.app.clone());
            for entry in &entries {
                if rows.are_enough() {
                    break;
                }
                self.take_faults(&entry.app, None, &mut rows).await?;
            }
        }
        let (faults, next_page_token) = page.fill(rows.found.into_iter());
        Ok(v1::ListFaultsResponse { faults, next_page_token, targets: Vec::new() })
    }

    async fn take_faults(
        &self,
        app: &AppName,
        after: Option<&FaultKey>,
        rows: &mut Rows,
    ) -> Result<(), ApiError> {
        let take = |state: &AppState| rows.take(state, after);
        self.reads.if_there(app, Revision::default(), take).await.map(drop)
    }

    async fn targets_of_many(
        &self,
        many: &Many,
        wire: &v1::ListFaultsRequest,
    ) -> Result<v1::ListFaultsResponse, Status> {
        let (size, token) = (wire.page_size, &wire.page_token);
        let page = Page::<Place>::open("ListFaults by target", &many.asked(), size, token)?;
        let _alone = self.grouping.lock().await;
        let entries = many.after(&self.parts.hub, None, GROUPED_MAX + 1);
        check_size(&entries)?;
        let read = |entry: Arc<Entry>| {
            let reads = self.reads.clone();
            async move {
                let group =
                    |state: &AppState| seen(faults::stored(state, &UnitName::application(), None));
                let seen = reads.if_there(&entry.app, Revision::default(), group).await?;
                // Thousands of reads are ready at once: other calls have their turn in between.
                tokio::task::yield_now().await;
                Ok::<_, ApiError>((entry, seen.unwrap_or_default()))
            }
        };
        let mut found = stream::iter(entries).map(read).buffered(READS_MAX);
        let mut targets = Targets::default();
        while let Some((entry, seen)) = found.try_next().await? {
            targets.add(&entry.app, seen).map_err(too_many_targets)?;
        }
        Ok(answer_by_target(targets, &page))
    }
}

/// Checks that the errors of these applications may be grouped by one answer.
fn check_size(entries: &[Arc<Entry>]) -> Result<(), ApiError> {
    if GROUPED_MAX < entries.len() {
        let what = "applications with open errors";
        return Err(too_many(what, "fault_applications_max", GROUPED_MAX as u64));
    }
    let faults: u64 = entries.iter().map(|entry| u64::from(entry.head().open_faults.count)).sum();
    match faults {
        ..=FAULTS_MAX => Ok(()),
        _ => Err(too_many("open errors", "faults_grouped_max", FAULTS_MAX)),
    }
}

fn answer_by_target(targets: Targets, page: &Page<Place>) -> v1::ListFaultsResponse {
    let found = targets.page(page.after.as_ref(), page.size + 1).into_iter();
    let rows = found.map(|target| (target.place(), fault_target(&target)));
    let (targets, next_page_token) = page.fill(rows);
    v1::ListFaultsResponse { faults: Vec::new(), next_page_token, targets }
}

fn fault_target(target: &Target) -> v1::FaultTarget {
    let Target { name, seen, applications, named } = target;
    v1::FaultTarget {
        target: name.to_string(),
        fault_count: convert::count(seen.faults),
        unit_count: convert::count(seen.units),
        application_count: convert::count(*applications),
        applications: named.iter().map(ToString::to_string).collect(),
        classes: seen.classes.iter().map(|class| convert::class(*class) as i32).collect(),
        first_time: Some(convert::timestamp(seen.first)),
        last_time: Some(convert::timestamp(seen.last)),
    }
}

fn too_many_targets(TooManyTargets: TooManyTargets) -> ApiError {
    too_many("targets of open errors", "fault_targets_max", TARGETS_MAX as u64)
}

fn too_many(what: &str, limit: &str, max: u64) -> ApiError {
    let text = format!(
        "there are more than {max} {what}; group those of one namespace or application, or list \
         the errors without group_by_target"
    );
    ApiError::of_limit(Reason::LimitExceeded, text, limit, max)
}

/// The faults of a page, and one more if there are more.
#[derive(Default)]
struct Rows {
    found: Vec<((AppName, FaultKey), v1::Fault)>,
    count_max: usize,
    bytes: usize,
}

impl Rows {
    /// Returns whether no further fault fits into the page.
    fn are_enough(&self) -> bool {
        self.count_max <= self.found.len() || 1 < self.found.len() && PAGE_BYTES_MAX < self.bytes
    }

    /// Takes faults of an application that follow a key, as long as they fit.
    fn take(&mut self, state: &AppState, after: Option<&FaultKey>) {
        for (key, fault) in faults::of(state, &UnitName::application(), after, false) {
            if self.are_enough() {
                return;
            }
            let fault = v1::Fault {
                namespace: state.name.namespace().to_string(),
                application: state.name.application().to_string(),
                ..fault
            };
            self.bytes += framed(&fault);
            self.found.push(((state.name.clone(), key.clone()), fault));
        }
    }
}

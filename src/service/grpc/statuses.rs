//! Lists of statuses: of one application, and of all applications of one or all namespaces.

use tonic::{Request, Status};

use crate::domain::app::AppState;
use crate::domain::name::{AppName, UnitName};
use crate::domain::revision::Revision;
use crate::domain::status::StatusKey;
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::code::ApiError;
use crate::service::convert::{self, PAGE_BYTES_MAX, Page, framed};
use crate::service::grpc::handlers::Handlers;

/// Applications that one page of a list reads: each may have to be read from the store.
const APPLICATIONS_MAX: usize = 128;

/// The place of a status in a list of several applications; without a key the end of the
/// application.
type Place = (AppName, Option<StatusKey>);

/// Answers a `ListStatuses`.
pub(super) async fn list(
    handlers: &Handlers,
    request: Request<v1::ListStatusesRequest>,
) -> Result<v1::ListStatusesResponse, Status> {
    if request.get_ref().application.is_empty() {
        return of_many(handlers, request).await;
    }
    let (app, wire, unit) = convert::open(request, |fields, wire| {
        Some(fields.unit_or_application("unit", &wire.unit))
    })?;
    let asked = [&app.to_string(), unit.as_str()];
    let page = Page::open("ListStatuses", &asked, wire.page_size, &wire.page_token)?;
    let list = |state: &AppState| page.fill(of(state, &unit, page.after.as_ref()));
    let (statuses, next_page_token) = handlers.reads.read(&app, wire.min_revision, list).await?;
    Ok(v1::ListStatusesResponse { statuses, next_page_token })
}

async fn of_many(
    handlers: &Handlers,
    request: Request<v1::ListStatusesRequest>,
) -> Result<v1::ListStatusesResponse, Status> {
    let (access, wire) = Access::open(request);
    let namespace = convert::statuses_of_many(&access, &wire)?;
    let (namespace, hub) = (namespace.as_deref(), &handlers.parts.hub);
    let asked = [namespace.unwrap_or("-")];
    let page =
        Page::<Place>::open("ListStatuses of all", &asked, wire.page_size, &wire.page_token)?;
    let mut rows = Rows { count_max: page.size + 1, ..Rows::default() };
    let last = page.after.as_ref().map(|(app, _)| app);
    if let Some((app, Some(key))) = &page.after {
        // The rest of the application that the last page ended with.
        if hub.get(app).is_some() {
            rows.take(handlers, app, Some(key)).await?;
        }
    }
    let next = hub.list_where(namespace, last, &|_| true, APPLICATIONS_MAX);
    for entry in &next {
        if rows.are_enough() {
            break;
        }
        rows.take(handlers, &entry.app, None).await?;
    }
    let (statuses, mut next_page_token) = page.fill(rows.found.into_iter());
    if next_page_token.is_empty() && APPLICATIONS_MAX <= next.len() {
        let last: Option<Place> = next.last().map(|entry| (entry.app.clone(), None));
        next_page_token = page.token(last);
    }
    Ok(v1::ListStatusesResponse { statuses, next_page_token })
}

/// The statuses of a page, and one more if there are more.
#[derive(Default)]
struct Rows {
    found: Vec<(Place, v1::StatusRecord)>,
    count_max: usize,
    bytes: usize,
}

impl Rows {
    /// Returns whether no further status fits into the page.
    fn are_enough(&self) -> bool {
        self.count_max <= self.found.len() || 1 < self.found.len() && PAGE_BYTES_MAX < self.bytes
    }

    /// Takes the statuses of an application that follow a key, as long as they fit. One that was
    /// deleted in the meantime has none.
    async fn take(
        &mut self,
        handlers: &Handlers,
        app: &AppName,
        after: Option<&StatusKey>,
    ) -> Result<(), ApiError> {
        let take = |state: &AppState| {
            for (key, record) in of(state, &UnitName::application(), after) {
                if self.are_enough() {
                    return;
                }
                self.bytes += framed(&record);
                self.found.push(((app.clone(), Some(key)), record));
            }
        };
        handlers.reads.if_there(app, Revision::default(), take).await.map(drop)
    }
}

/// Returns the statuses of one unit, or with `""` of all units and of the application itself, that
/// follow a key.
fn of(
    state: &AppState,
    unit: &UnitName,
    after: Option<&StatusKey>,
) -> impl Iterator<Item = (StatusKey, v1::StatusRecord)> {
    let first = after.cloned().unwrap_or_else(|| StatusKey::first_of(unit));
    let is_next = |key: &StatusKey| unit.is_application() && after.is_none_or(|after| after < key);
    let mut own = convert::leader_record(state).filter(|(key, _)| is_next(key));
    let wanted = |key: &StatusKey| unit.is_application() || key.unit == *unit;
    let found = state.statuses().from(&first).take_while(move |(key, _)| wanted(key));
    let found = found.filter(move |(key, _)| after != Some(&***key));
    let found = found.map(|(key, status)| ((**key).clone(), convert::record(state, key, status)));
    let mut found = found.peekable();
    std::iter::from_fn(move || match (&own, found.peek()) {
        (Some((own, _)), Some((key, _))) if key < own => found.next(),
        (Some(_), _) => own.take(),
        (None, _) => found.next(),
    })
}

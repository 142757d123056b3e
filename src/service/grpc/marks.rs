//! Marks: set, and listed for one application or for all of a namespace.

use tonic::{Request, Response, Status};

use crate::domain::app::AppState;
use crate::domain::command::Command;
use crate::domain::mark::{MarkId, MarkKind};
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::code::ApiError;
use crate::service::convert::{self, MarksOf, Page};
use crate::service::grpc::handlers::Handlers;
use crate::watch::Entry;

/// Applications whose marks one page of a list reads: each may have to be read from the store.
const APPLICATIONS_MAX: usize = 128;

/// The place of a mark in a list: namespace, application, id.
type Place = (String, String, String);

/// Answers a `SetMark`.
pub(super) async fn set(
    handlers: &Handlers,
    request: Request<v1::SetMarkRequest>,
) -> Result<Response<v1::SetMarkResponse>, Status> {
    let access = Access::of(request.extensions());
    let author = access.principal().map(ToString::to_string);
    let (app, request) =
        convert::read(request, |fields, wire| convert::set_mark(fields, wire, author.as_deref()))?;
    let id = match &request.command {
        Command::SetMark(new) => new.id.clone(),
        _ => MarkId::from(""),
    };
    let outcome = handlers.apply(&app, request).await?;
    let (revision, changed) = (outcome.revision.0, outcome.changed);
    let found = |state: &AppState| {
        let mark = state.marks().get(&id)?;
        let is_well = mark.kind == MarkKind::Acknowledged && mark.acknowledged_level.is_well();
        Some((convert::mark(&app, &id, mark), is_well))
    };
    let found = handlers.reads.if_there(&app, outcome.revision, found).await?.flatten();
    let (mark, is_well) = found.unzip();
    let advice = is_well.unwrap_or_default().then(|| {
        "nothing is wrong there: anything worse than active ends this acknowledgement; planned \
         work has a mark of kind planned"
            .to_string()
    });
    let advice = advice.into_iter().collect();
    Ok(Response::new(v1::SetMarkResponse { mark, revision, changed, advice }))
}

/// Answers a `ListMarks`.
pub(super) async fn list(
    handlers: &Handlers,
    request: Request<v1::ListMarksRequest>,
) -> Result<v1::ListMarksResponse, Status> {
    let (access, wire) = Access::open(request);
    let of_what = convert::list_marks(&access, &wire)?;
    let asked = [wire.namespace.as_str(), wire.application.as_str()];
    let page = Page::<Place>::open("ListMarks", &asked, wire.page_size, &wire.page_token)?;
    let after = page.after.clone();
    let last_app = after.as_ref().and_then(|(ns, app, _)| AppName::new(ns, app).ok());
    let apps = match of_what {
        MarksOf::Application(app) => {
            if handlers.parts.hub.get(&app).is_none() {
                return Err(ApiError::application_not_found(&app).into());
            }
            vec![app]
        }
        MarksOf::Namespace(namespace) => {
            let hub = &handlers.parts.hub;
            // The application of the last mark may have more.
            let again = last_app.iter().filter(|app| hub.get(app).is_some()).cloned();
            let (namespace, has_marks) = (namespace.as_deref(), |e: &Entry| e.kept().has_marks());
            let next = hub.list_where(namespace, last_app.as_ref(), &has_marks, APPLICATIONS_MAX);
            again.chain(next.iter().map(|entry| entry.app.clone())).collect()
        }
    };
    let is_cut = APPLICATIONS_MAX <= apps.len();
    let mut found: Vec<(Place, v1::Mark)> = Vec::new();
    let mut last_read: Option<Place> = None;
    for app in apps {
        let place =
            |id: &str| (app.namespace().to_string(), app.application().to_string(), id.to_string());
        let first = after.as_ref().filter(|_| last_app.as_ref() == Some(&app));
        let first = first.map(|(_, _, id)| id.as_str());
        let read = |state: &AppState| {
            let marks = of(state, first).map(|(id, mark)| (place(&id), mark));
            marks.collect::<Vec<_>>()
        };
        let marks = handlers.reads.if_there(&app, Revision::default(), read).await?;
        found.extend(marks.into_iter().flatten());
        // After every id of this application.
        last_read = Some(place("\u{10ffff}"));
        if page.size < found.len() {
            break;
        }
    }
    let (marks, mut next_page_token) = page.fill(found.into_iter());
    if next_page_token.is_empty() && is_cut {
        next_page_token = page.token(last_read);
    }
    Ok(v1::ListMarksResponse { marks, next_page_token })
}

/// Returns the marks of an application with an id after `after`.
pub(super) fn of(
    state: &AppState,
    after: Option<&str>,
) -> impl Iterator<Item = (MarkId, v1::Mark)> {
    let marks =
        state.marks().iter().filter(move |(id, _)| after.is_none_or(|after| after < &***id));
    marks.map(|(id, mark)| (id.clone(), convert::mark(&state.name, id, mark)))
}

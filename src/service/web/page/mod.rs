//! The status page at `/`: rendered here, so that it works without scripts and every text is
//! escaped in one place. The script follows the watch and asks for the page again when something
//! changed.
//!
//! ```text
//!  GET /?level=blocked --> PageView --> may the caller list? --> Lists: the list, shared
//!                             |-------> ListBlockers ---------> what blocks, the first line
//!                             '-------> ExplainApplication, ... --> why
//!  GET /concepts --> what the words of the page mean
//! ```

mod action;
mod application;
mod concepts;
mod digest;
mod empty;
mod figures;
mod files;
mod frame;
mod group;
mod headline;
mod html;
mod list;
mod moment;
mod needs;
mod past;
mod progress;
mod row;
mod shared;
mod sign_in;
mod slots;
mod tags;
mod tools;
mod view;
mod whole;
mod why;

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tonic::{Code, Status};

use bytes::Bytes;

use super::body::WebBody;
use super::gzip::Encoded;
use super::inner::{Inner, MemoryAge};
use super::{GrpcService, WebAnswer, connect, gzip, typed};
use crate::proto::v1;
use crate::service::caller::outgoing::size;
use crate::service::convert::level_word;
use crate::telemetry::OffloadedWork;
use frame::Frame;
use html::Html;
use past::AppKey;
use row::Facts;
pub use shared::Lists;
use shared::{List, PageOf};
use tags::OperatorMarks;
use view::PageView;
use whole::Page;

const LIST: &str = "/bellwether.v1.ApplicationService/ListApplications";
const MARKS: &str = "/bellwether.v1.ApplicationService/ListMarks";

/// Applications that the page reads; it says if there are more.
const APPLICATIONS_MAX: usize = 10_000;

/// Pages of marks that one list reads.
const MARK_PAGES_MAX: usize = 8;

/// Nothing is loaded from elsewhere, and nothing in the page itself is run.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);

const HTML: &str = "text/html; charset=utf-8";

/// What a request says beside its view, and how a page is sent.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Whether the caller has a session, which the page can end.
    pub has_session: bool,
    /// Whether the caller reads gzip.
    pub is_gzip: bool,
    /// Whether the connection has TLS.
    pub is_tls: bool,
    /// The host and port of the request; empty: it names none.
    pub authority: String,
    /// The name of this installation; empty: the authority.
    pub name: Box<str>,
}

/// Answers a path of the page; `None` if it has no such path.
pub async fn answer<S: GrpcService>(
    inner: &Inner<S>,
    lists: &Lists,
    (path, query): (&str, &str),
    (asked, headers): (&Asked, &HeaderMap),
) -> Option<WebAnswer<S>> {
    match path {
        "/" => Some(page(inner, lists, &PageView::of(query), asked).await),
        concepts::PATH => Some(explained()),
        _ => files::answer(path, query, headers),
    }
}

/// Returns the bytes that an answer takes before it is rendered; `None` for one that is short or
/// already there.
pub fn reserved_bytes(path: &str) -> Option<usize> {
    (path == "/").then_some(size::PAGE)
}

/// Returns the page that has no room. Its script follows the watch, and asks for the page again.
pub fn failed<B>(query: &str, status: &Status) -> Response<WebBody<B>> {
    let mut main = Html::default();
    main.fill(r#" data-watch="{}">"#, &[&watched(&PageView::of(query).namespace)]);
    add_failure(&mut main, status);
    let frame = Frame { refreshes: true, ..Frame::default() };
    html(connect::named(status.code()).0, &frame, &main)
}

/// Returns content with the headers of the page. What is part of the binary is not copied.
fn served<B>(
    text: impl Into<Bytes>,
    kind: &'static str,
    cache: &'static str,
) -> Response<WebBody<B>> {
    let mut response = typed(kind, text);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    let resource = HeaderName::from_static("cross-origin-resource-policy");
    for name in [REFERRER_POLICY, opener, resource] {
        headers.insert(name, HeaderValue::from_static("same-origin"));
    }
    response
}

/// Returns a page around a main part.
fn html<B>(status: StatusCode, frame: &Frame, main: &Html) -> Response<WebBody<B>> {
    let mut response = served(frame::around(frame, main), HTML, "no-store");
    *response.status_mut() = status;
    response
}

/// Returns the page of concepts. It has no data, so each caller may read it.
fn explained<B>() -> Response<WebBody<B>> {
    let mut main = Html::default();
    concepts::add(&mut main);
    let frame = Frame { title: "Concepts".into(), is_text: true, ..Frame::default() };
    html(StatusCode::OK, &frame, &main)
}

/// Returns the address of a view, from the address that a form sent. It never leads elsewhere.
pub fn local(to: &str) -> String {
    to.strip_prefix("/?").map_or_else(|| "/".into(), |query| PageView::of(query).url())
}

/// Returns the form for a token, after one that was refused.
pub fn refused<B>(to: &str, status: &Status) -> Response<WebBody<B>> {
    let view = PageView::of(to.strip_prefix("/?").unwrap_or_default());
    let mut main = Html::default();
    main.raw(r#"><div class="form-of">"#);
    add_failure(&mut main, status);
    sign_in::add_token(&mut main, &view);
    main.raw("</div>");
    let frame = Frame { title: "Sign in".into(), ..Frame::default() };
    html(connect::named(status.code()).0, &frame, &main)
}

/// Returns the page of a view.
async fn page<S: GrpcService>(
    inner: &Inner<S>,
    lists: &Lists,
    view: &PageView,
    asked: &Asked,
) -> WebAnswer<S> {
    if let Err(status) = check(inner, &view.namespace).await {
        return unlisted(inner, lists, view, (asked, &status)).await;
    }
    let of_list = if view.is_blockers { view.without_filters() } else { view.without_why() };
    let list =
        lists.get(&of_list, |rows, has_marks| facts(inner, lists, view, (rows, has_marks))).await;
    // The list may have waited for its turn, and the caller may have lost its rights meanwhile.
    let as_of = match check(inner, &view.namespace).await {
        Ok(as_of) => as_of,
        Err(status) => return unlisted(inner, lists, view, (asked, &status)).await,
    };
    let (view, asked, offload) = (view.clone(), asked.clone(), lists.offload());
    // Callers who may list all namespaces may read the same, so they share what blocks.
    let is_shared = view.namespace.is_empty();
    let own = match is_shared {
        true => {
            list.needs.get_or_init(|| needs::read(inner, "")).await;
            None
        }
        false => Some(needs::read(inner, &view.namespace).await),
    };
    if is_shared && view.why.is_empty() && !view.is_blockers {
        let of = asked.page();
        let build = move |list: &List| {
            let whole = Page { view: &view, asked: &asked, list, as_of: &as_of, title: "" };
            whole.text(list.needs.get(), &Html::default())
        };
        return packed(StatusCode::OK, list.page(offload, of, build).await);
    }
    let mut part = Html::default();
    let (shown, title) = add_why(inner, lists, &view, &mut part).await;
    let render = move || {
        let (view, asked, list) = (&view, &asked, &*list);
        let whole = Page { view, asked, list, as_of: &as_of, title: &title };
        let plain = whole.text(own.as_ref().or(list.needs.get()), &part);
        gzip::encoded(plain.into(), asked.is_gzip)
    };
    packed(shown, offload.run(OffloadedWork::Render, render).await)
}

impl Asked {
    /// Returns the name of the installation.
    fn name(&self) -> &str {
        if self.name.is_empty() { &self.authority } else { &self.name }
    }

    /// Returns for whom a page is.
    fn page(&self) -> PageOf {
        let Asked { has_session, is_gzip, authority, .. } = self.clone();
        PageOf { has_session, is_gzip, authority }
    }
}

fn packed<B>(status: StatusCode, (page, is_packed): Encoded) -> Response<WebBody<B>> {
    let mut response = served(page, HTML, "no-store");
    *response.status_mut() = status;
    if is_packed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Returns the page of a view whose applications cannot be listed. A caller that may read a single
/// application sees that one.
async fn unlisted<S: GrpcService>(
    inner: &Inner<S>,
    lists: &Lists,
    view: &PageView,
    (asked, status): (&Asked, &Status),
) -> WebAnswer<S> {
    let (mut main, mut part) = (Html::default(), Html::default());
    let mut frame = Frame {
        name: asked.name().to_string(),
        has_session: asked.has_session,
        refreshes: true,
        ..Frame::default()
    };
    match status.code() {
        Code::Unauthenticated => return refused(&view.url(), status),
        Code::PermissionDenied => {
            frame.refreshes = false;
            let (shown, title) = add_why(inner, lists, view, &mut part).await;
            let named = view.why.split_once('/').filter(|_| shown == StatusCode::OK);
            if let Some((namespace, name)) = named {
                frame.title = title;
                let watch = serde_json::json!({ "namespace": namespace, "applications": [name] });
                main.fill(r#" data-watch="{}""#, &[&watch]);
            }
        }
        // The filter of the address names nothing that exists.
        Code::InvalidArgument => {}
        // It may succeed later.
        _ => {
            main.fill(r#" data-watch="{}""#, &[&watched(&view.namespace)]);
        }
    }
    main.raw(">").append(&part).raw(r#"<div class="form-of">"#);
    add_failure(&mut main, status);
    if status.code() == Code::PermissionDenied {
        sign_in::add_namespace(&mut main, view);
    }
    main.raw("</div>");
    html(connect::named(status.code()).0, &frame, &main)
}

/// Adds why an application has its status, if the view asks for it. Returns the title of the tab.
async fn add_why<S: GrpcService>(
    inner: &Inner<S>,
    lists: &Lists,
    view: &PageView,
    html: &mut Html,
) -> (StatusCode, String) {
    let none = String::new();
    let Some((namespace, application)) = view.why.split_once('/') else {
        return (StatusCode::OK, none);
    };
    match application::read(inner, lists.figures(), (namespace, application)).await {
        Ok(details) => {
            why::add(html, view, &details);
            let level = details.answer.application.as_ref().map_or(v1::Level::Unknown, view::level);
            (StatusCode::OK, format!("{application} {}", level_word(level)))
        }
        Err(status) => {
            why::add_unknown(html, view, &status);
            let is_final = [Code::NotFound, Code::PermissionDenied].contains(&status.code());
            let shown = if is_final { connect::named(status.code()).0 } else { StatusCode::OK };
            (shown, none)
        }
    }
}

/// Adds why something is not shown.
fn add_failure(html: &mut Html, status: &Status) {
    html.element("<p class=\"failed\">", status.message(), "</p>");
}

/// Returns the request of the watch that the script follows: of what the page reads.
fn watched(namespace: &str) -> String {
    serde_json::json!({ "namespace": scope(namespace) }).to_string()
}

/// Returns the namespace to read; without a filter all of them.
fn scope(namespace: &str) -> &str {
    if namespace.is_empty() { "-" } else { namespace }
}

/// Checks that the caller may list a namespace. Only what the filter asks for is read, because the
/// caller may have the right to read nothing else. Returns how old answers are.
async fn check<S: GrpcService>(inner: &Inner<S>, namespace: &str) -> Result<MemoryAge, Status> {
    let request = v1::ListApplicationsRequest {
        namespace: scope(namespace).into(),
        page_size: 1,
        ..v1::ListApplicationsRequest::default()
    };
    let (_, as_of) = inner.dated::<v1::ListApplicationsResponse>(LIST, &request).await?;
    Ok(as_of)
}

/// Reads what the rows of a list show beside its applications. What cannot be read is left out.
async fn facts<S: GrpcService>(
    inner: &Inner<S>,
    lists: &Lists,
    view: &PageView,
    (rows, has_marks): (Vec<AppKey>, bool),
) -> Facts {
    let namespace = view.namespace.as_str();
    let marks = async { if has_marks { marks(inner, namespace, &rows).await } else { Vec::new() } };
    let (marks, pasts) = tokio::join!(marks, lists.pasts().get(inner, namespace, &rows));
    Facts { marks: OperatorMarks::new(marks), pasts }
}

/// Reads the marks of a namespace, or of all. Without them the rows have marks without author and
/// end.
async fn marks<S: GrpcService>(
    inner: &Inner<S>,
    namespace: &str,
    rows: &[AppKey],
) -> Vec<v1::Mark> {
    match marks_of(inner, namespace).await {
        Ok(marks) => marks,
        // A relay passes a call on to the upstream that has its namespace.
        Err(status) if status.code() == Code::FailedPrecondition => {
            let namespaces: BTreeSet<&str> = rows.iter().map(|(own, _)| own.as_str()).collect();
            let mut all = Vec::new();
            for namespace in namespaces.into_iter().take(past::NAMESPACES_MAX) {
                all.extend(marks_of(inner, namespace).await.unwrap_or_default());
            }
            all
        }
        Err(_) => Vec::new(),
    }
}

async fn marks_of<S: GrpcService>(
    inner: &Inner<S>,
    namespace: &str,
) -> Result<Vec<v1::Mark>, Status> {
    let mut request = v1::ListMarksRequest {
        namespace: scope(namespace).into(),
        page_size: 1000,
        ..v1::ListMarksRequest::default()
    };
    let mut all = Vec::new();
    for _ in 0..MARK_PAGES_MAX {
        let page = match inner.call::<v1::ListMarksResponse>(MARKS, &request).await {
            Ok(page) => page,
            Err(status) if all.is_empty() => return Err(status),
            Err(_) => break,
        };
        all.extend(page.marks);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    Ok(all)
}

/// Returns the seconds since 1970.
fn now() -> i64 {
    now_millis() / 1000
}

/// Returns the milliseconds since 1970.
fn now_millis() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_leads_to_a_view_and_nowhere_else() {
        for (to, expected) in [
            ("/?level=blocked&why=prod/web", "/?level=blocked&why=prod/web"),
            ("/?next=//evil.example", "/"),
            ("//evil.example/?q=a", "/"),
            ("https://evil.example", "/"),
            ("/?q=a\r\nset-cookie: x", "/?q=a%0D%0Aset-cookie%3A%20x"),
            ("", "/"),
        ] {
            assert_eq!(local(to), expected, "{to}");
        }
    }
}

//! The status page at `/`: rendered here, so that it works without scripts and every text is
//! escaped in one place. The script follows the watch and asks for the page again when something
//! changed.
//!
//! ```text
//!  GET /?level=blocked --> PageView --> may the caller list? --> Lists: the list, shared
//!                             '--------> ExplainApplication, ... --> why
//! ```

mod application;
mod digest;
mod html;
mod list;
mod parts;
mod shared;
mod sign_in;
mod strip;
mod view;
mod why;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tonic::{Code, Status};

use super::body::WebBody;
use super::gzip::Encoded;
use super::inner::Inner;
use super::{GrpcService, WebAnswer, connect, gzip, typed};
use crate::proto::v1;
use crate::service::caller::outgoing::size;
use crate::service::offload::Offload;
use crate::telemetry::OffloadedWork;
use html::Html;
use shared::List;
pub use shared::Lists;
use view::PageView;

const LIST: &str = "/bellwether.v1.ApplicationService/ListApplications";

/// Applications that the page reads; it says if there are more.
const APPLICATIONS_MAX: usize = 10_000;

/// Nothing is loaded from elsewhere, and nothing in the page itself is run.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\">\
    <path fill=\"#0969da\" d=\"M3 12h10l-1.5-2V7a3.5 3.5 0 0 0-7 0v3z\"/></svg>";

const HTML: &str = "text/html; charset=utf-8";
const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta name=\"color-scheme\" content=\"light dark\"><title>Bellwether</title>\
    <link rel=\"stylesheet\" href=\"/page.css\"><link rel=\"icon\" href=\"/page.svg\">";
/// Without scripts. A form that someone fills in stays.
const REFRESH: &str = "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>";
const HEADER: &str = "<script src=\"/page.js\" defer></script></head><body>\
    <header><h1><a href=\"/\">Bellwether</a></h1>\
    <p id=\"live\" role=\"status\" class=\"off\"><span aria-hidden=\"true\">\u{25cb}</span> \
    <span id=\"live-text\">as of this moment</span></p>\
    <p id=\"proof\" hidden></p></header><main id=\"main\"";
const FOOT: &str = "</main><footer>Keys: / searches, j and k move, Enter shows why, Escape closes.\
    </footer></body></html>\n";

/// How a page is sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Whether the caller has a session, which the page can end.
    pub has_session: bool,
    /// Whether the caller reads gzip.
    pub is_gzip: bool,
}

/// Answers a path of the page; `None` if it has no such path.
pub async fn answer<S: GrpcService>(
    inner: &Inner<S>,
    lists: &Lists,
    (path, query): (&str, &str),
    sent: Sent,
) -> Option<WebAnswer<S>> {
    Some(match path {
        "/" => page(inner, lists, &PageView::of(query), sent).await,
        "/page.css" => served(STYLE, "text/css; charset=utf-8", "no-cache"),
        "/page.js" => served(SCRIPT, "text/javascript; charset=utf-8", "no-cache"),
        "/page.svg" => served(ICON, "image/svg+xml", "no-cache"),
        _ => return None,
    })
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
    html(connect::named(status.code()).0, REFRESH, &main)
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
fn html<B>(status: StatusCode, refresh: &'static str, main: &Html) -> Response<WebBody<B>> {
    let mut response = served(whole(refresh, main), HTML, "no-store");
    *response.status_mut() = status;
    response
}

/// Returns the text of a page around a main part.
fn whole(refresh: &'static str, main: &Html) -> String {
    [HEAD, refresh, HEADER, main.as_str(), FOOT].concat()
}

/// Returns the address of a view, from the address that a form sent. It never leads elsewhere.
pub fn local(to: &str) -> String {
    to.strip_prefix("/?").map_or_else(|| "/".into(), |query| PageView::of(query).url())
}

/// Returns the form for a token, after one that was refused.
pub fn refused<B>(to: &str, status: &Status) -> Response<WebBody<B>> {
    let view = PageView::of(to.strip_prefix("/?").unwrap_or_default());
    let mut main = Html::default();
    add_failure(main.raw(">"), status);
    sign_in::add_token(&mut main, &view);
    html(connect::named(status.code()).0, "", &main)
}

/// Returns the page of a view.
async fn page<S: GrpcService>(
    inner: &Inner<S>,
    lists: &Lists,
    view: &PageView,
    sent: Sent,
) -> WebAnswer<S> {
    if let Err(status) = check(inner, &view.namespace).await {
        return unlisted(inner, view, sent.has_session, &status).await;
    }
    let (list, offload) = (lists.get(view).await, lists.offload());
    // The list may have waited for its turn, and the caller may have lost its rights meanwhile.
    if let Err(status) = check(inner, &view.namespace).await {
        return unlisted(inner, view, sent.has_session, &status).await;
    }
    let (Sent { has_session, is_gzip }, namespace) = (sent, view.namespace.clone());
    if view.why.is_empty() {
        let build = move |list: &List| {
            let mut main = begun(&namespace, list, has_session);
            whole(REFRESH, main.append(&list.html))
        };
        let page = list.page(offload, (has_session, is_gzip), build).await;
        return packed(StatusCode::OK, page);
    }
    let mut main = begun(&namespace, &list, has_session);
    let shown = add_why(inner, view, &mut main).await;
    packed(shown, rendered(offload, main, list, is_gzip).await)
}

/// Returns the main part of a page up to its list.
fn begun(namespace: &str, list: &List, has_session: bool) -> Html {
    let mut main = Html::default();
    main.fill(r#" data-watch="{}" data-digest="{}">"#, &[&watched(namespace), &list.digest]);
    if has_session {
        sign_in::add_end(&mut main);
    }
    main
}

/// Returns a page with a part of its own before the list.
async fn rendered(offload: &Offload, mut main: Html, list: Arc<List>, is_gzip: bool) -> Encoded {
    let render = move || {
        let plain = whole(REFRESH, main.append(&list.html));
        gzip::encoded(plain.into(), is_gzip)
    };
    offload.run(OffloadedWork::Render, render).await
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
    view: &PageView,
    has_session: bool,
    status: &Status,
) -> WebAnswer<S> {
    let (mut main, mut part, mut refresh) = (Html::default(), Html::default(), REFRESH);
    match status.code() {
        Code::Unauthenticated => return refused(&view.url(), status),
        Code::PermissionDenied => {
            refresh = "";
            if let (StatusCode::OK, Some((namespace, name))) =
                (add_why(inner, view, &mut part).await, view.why.split_once('/'))
            {
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
    main.raw(">");
    if has_session {
        sign_in::add_end(&mut main);
    }
    main.append(&part);
    add_failure(&mut main, status);
    if status.code() == Code::PermissionDenied {
        sign_in::add_namespace(&mut main, view);
    }
    html(connect::named(status.code()).0, refresh, &main)
}

/// Adds why an application has its status, if the view asks for it.
async fn add_why<S: GrpcService>(inner: &Inner<S>, view: &PageView, html: &mut Html) -> StatusCode {
    let Some((namespace, application)) = view.why.split_once('/') else { return StatusCode::OK };
    match application::read(inner, (namespace, application)).await {
        Ok(details) => why::add(html, view, &details),
        Err(status) => {
            add_failure(html.raw("<section id=\"why\">"), &status);
            html.raw("</section>");
            if [Code::NotFound, Code::PermissionDenied].contains(&status.code()) {
                return connect::named(status.code()).0;
            }
        }
    }
    StatusCode::OK
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
/// caller may have the right to read nothing else.
async fn check<S: GrpcService>(inner: &Inner<S>, namespace: &str) -> Result<(), Status> {
    let request = v1::ListApplicationsRequest {
        namespace: scope(namespace).into(),
        page_size: 1,
        ..v1::ListApplicationsRequest::default()
    };
    inner.call::<v1::ListApplicationsResponse>(LIST, &request).await.map(drop)
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
            ("/?next=//evil.example", "/?"),
            ("//evil.example/?q=a", "/"),
            ("https://evil.example", "/"),
            ("/?q=a\r\nset-cookie: x", "/?q=a%0D%0Aset-cookie%3A%20x"),
            ("", "/"),
        ] {
            assert_eq!(local(to), expected, "{to}");
        }
    }

    #[test]
    fn the_page_is_small_and_names_no_other_host() {
        let all = [HEAD, HEADER, FOOT, STYLE, SCRIPT].concat();
        assert!(all.len() < 60 << 10, "{}", all.len());
        assert!(!all.contains("http:") && !all.contains("https:") && !all.contains("innerHTML = "));
    }
}

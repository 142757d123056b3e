//! The frame around the main part of each page: title, icon, the bar, and the footer.

use super::html::Html;
use super::moment;
use super::now;
use super::sign_in;
use super::view::PageView;

/// What the frame shows.
#[derive(Debug, Default)]
pub struct Frame {
    /// The state in a few words, for the tab of the browser; empty: the product.
    pub title: String,
    /// The icon of the worst class; empty: that of all well.
    pub icon: &'static str,
    /// The name of the installation.
    pub name: String,
    /// The tabs; `None` leaves them out.
    pub tabs: Option<Tabs>,
    /// Whether a page without scripts loads itself again. A form that someone fills in stays.
    pub refreshes: bool,
    /// Whether the caller has a session, which the page can end.
    pub has_session: bool,
    /// Whether the page is a text without data, which is neither live nor stale.
    pub is_text: bool,
}

/// The two views.
#[derive(Debug)]
pub struct Tabs {
    /// The view that is shown.
    pub view: PageView,
    /// The number of causes; empty: not known.
    pub causes: String,
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta name=\"color-scheme\" content=\"light dark\"><title id=\"title\">";
const BELL: &str = "<svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><path d=\"M8 1.2a1 1 0 0 1 1 \
    1v.4a4.5 4.5 0 0 1 3.5 4.4v2.6l1.4 2.1a.6.6 0 0 1-.5.9H2.6a.6.6 0 0 1-.5-.9l1.4-2.1V7A4.5 \
    4.5 0 0 1 7 2.6v-.4a1 1 0 0 1 1-1zM6.2 13.6h3.6a1.8 1.8 0 0 1-3.6 0z\"/></svg>";
const KEYS: &str = "<p class=\"keys\">Keys: <b>/</b> search \u{b7} <b>j</b> <b>k</b> move \u{b7} \
    <b>Enter</b> why \u{b7} <b>Esc</b> close \u{b7} <b>c</b> copy \u{b7} <b>a</b> needs attention \
    \u{b7} <b>b</b> what blocks</p><p class=\"keys\"><button type=\"button\" id=\"keys\">\
    Turn keys off</button></p>";

/// Returns the text of a page around a main part, which begins with the attributes of its element.
pub fn around(frame: &Frame, main: &Html) -> String {
    let mut html = Html::default();
    let title = if frame.title.is_empty() { "Bellwether" } else { &frame.title };
    html.raw(HEAD).text(title).labelled(" \u{b7} ", &frame.name).raw("</title>");
    html.raw(r#"<link rel="stylesheet" href="/page.css"><link rel="icon" id="icon" "#);
    let icon = if frame.icon.is_empty() { "fine" } else { frame.icon };
    html.fill(r#"href="/page.svg?is={}" type="image/svg+xml">"#, &[&icon]);
    if frame.refreshes {
        html.raw(r#"<noscript><meta http-equiv="refresh" content="10"></noscript>"#);
    }
    html.raw(r#"<script src="/page.js" defer></script></head><body>"#);
    html.raw("<a class=\"skip\" id=\"skip\" href=\"#main\">Skip to the content</a>");
    add_bar(&mut html, frame);
    html.raw(r#"<main id="main" tabindex="-1""#).append(main).raw("</main>");
    add_foot(&mut html, frame);
    html.raw("</body></html>\n");
    html.into_text()
}

fn add_bar(html: &mut Html, frame: &Frame) {
    html.raw(r#"<header class="bar" id="bar"><p class="brand"><a id="home" href="/" "#);
    html.raw(r#"aria-label="Bellwether, all applications">"#).raw(BELL);
    html.raw(r#"<span class="word">Bellwether</span></a> "#);
    html.fill(r#"<span class="ns" id="installation">{}</span></p>"#, &[&frame.name]);
    if let Some(Tabs { view, causes }) = &frame.tabs {
        let current = |is: bool| if is { r#" aria-current="page">"# } else { ">" };
        let list = view.without_filters();
        let blockers = PageView { is_blockers: true, ..list.clone() };
        html.raw(r#"<nav class="tabs" id="tabs" aria-label="Views">"#);
        html.fill(r#"<a id="tab-list" href="{}""#, &[&list.url()]);
        html.raw(current(!view.is_blockers)).raw("Applications</a>");
        html.fill(r#"<a id="tab-blockers" href="{}""#, &[&blockers.url()]);
        html.raw(current(view.is_blockers)).raw("What blocks");
        if !causes.is_empty() {
            html.fill(" <b>{}</b>", &[causes]);
        }
        html.raw("</a></nav>");
    }
    let now = prost_types::Timestamp { seconds: now(), nanos: 0 };
    html.raw(r#"<p class="proof" id="proof"></p><p id="live" role="status" class="off""#);
    html.raw(if frame.is_text { " hidden>" } else { ">" });
    html.fill(r#"<span id="live-text">as of {}</span></p></header>"#, &[&moment::clock(&now)]);
}

fn add_foot(html: &mut Html, frame: &Frame) {
    html.raw(r#"<footer id="foot">"#).raw(KEYS);
    html.fill(
        "<p>Bellwether {} \u{b7} reads only, changes nothing \u{b7} \
         <a href=\"/concepts\" id=\"concepts\">What the words mean</a></p>",
        &[&env!("CARGO_PKG_VERSION")],
    );
    if frame.has_session {
        sign_in::add_end(html);
    }
    html.raw("</footer>");
}

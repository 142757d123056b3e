//! What blocks: each first cause once, with what to do about it, and the one to start with.

use tonic::Status;

use super::html::Html;
use super::moment::add_since;
use super::view::PageView;
use super::{action, add_failure, scope, tags};
use crate::proto::v1;
use crate::proto::v1::need::Object;
use crate::service::web::GrpcService;
use crate::service::web::inner::Inner;

const BLOCKERS: &str = "/bellwether.v1.ApplicationService/ListBlockers";

/// Causes that the page reads; it says if there are more.
const CAUSES_MAX: i32 = 100;

/// The first causes that a caller may see, or why there are none.
pub struct Needs(Result<v1::ListBlockersResponse, Status>);

/// Reads the first causes of a namespace.
pub async fn read<S: GrpcService>(inner: &Inner<S>, namespace: &str) -> Needs {
    let request = v1::ListBlockersRequest {
        namespace: scope(namespace).into(),
        page_size: CAUSES_MAX,
        ..v1::ListBlockersRequest::default()
    };
    Needs(inner.call(BLOCKERS, &request).await)
}

impl Needs {
    /// Returns the number of causes for the tab; empty if it is not known.
    pub fn count(&self) -> String {
        match &self.0 {
            Err(_) => String::new(),
            Ok(list) if list.next_page_token.is_empty() => list.blockers.len().to_string(),
            Ok(list) => format!("{}+", list.blockers.len()),
        }
    }

    /// Adds what to start with in one line, unless that frees nothing.
    pub fn add_first(&self, html: &mut Html, view: &PageView) {
        let Ok(list) = &self.0 else { return };
        let Some(first) = list.blockers.iter().find(|one| 0 < one.frees_count) else { return };
        html.raw(r#"<p class="first" id="first">Start with "#);
        match (first.state(), first.objects.first()) {
            (v1::CauseState::Deadlock, _) => {
                let count = all_objects(first);
                html.fill("the deadlock of {} applications", &[&count]);
            }
            (_, Some(need)) => add_object(html, view, need, first.state()),
            (_, None) => {}
        }
        match first.frees_count {
            1 => html.raw(": 1 other needs nothing else."),
            count => html.fill(": {} others need nothing else.", &[&count]),
        };
        if !first.action.is_empty() {
            html.fill(" <code>{}</code>", &[&first.action]);
        }
        html.raw("</p>");
    }

    /// Adds how much the causes hold up, in one line.
    pub fn add_sum(&self, html: &mut Html) {
        let Ok(list) = &self.0 else { return };
        let blocks = list.blockers.iter().map(|one| one.blocks_count).max().unwrap_or(0);
        let frees = list.blockers.first().map_or(0, |one| one.frees_count);
        html.raw(r#"<p class="first" id="first">"#);
        match list.blockers.len() {
            0 => html.raw("Nothing blocks."),
            1 => html.raw("1 cause."),
            _ => html.fill("{} causes.", &[&self.count()]),
        };
        if 0 < frees {
            html.fill(" The first one alone frees {}; the widest holds up {}.", &[&frees, &blocks]);
        }
        html.raw("</p>");
    }

    /// Adds the causes as a list.
    pub fn add_all(&self, html: &mut Html, view: &PageView) {
        let list = match &self.0 {
            Ok(list) => list,
            Err(status) => return add_failure(html, status),
        };
        if !list.blockers.is_empty() {
            html.raw(r#"<div class="cause-head" aria-hidden="true"><span>Frees</span>"#);
            html.raw("<span>Cause</span><span>Do this</span><span>Holds up</span>");
            html.raw(r#"<span>Since</span></div><ol class="causes" id="causes">"#);
            list.blockers.iter().for_each(|blocker| add_cause(html, view, blocker));
            html.raw("</ol>");
        }
        if !list.next_page_token.is_empty() {
            let markup =
                r#"<p class="heal">There are more: <code>bellwether blockers{}</code></p>"#;
            let all = if view.namespace.is_empty() { " -A" } else { "" };
            html.fill(markup, &[&all]);
        }
        let way = PageView::of("show=way");
        let way = PageView { namespace: view.namespace.clone(), ..way }.url();
        match list.self_healing_count {
            ..=0 => return,
            1 => html.raw(r#"<p class="heal">1 more heals itself: "#),
            count => html.fill(r#"<p class="heal">{} more heal themselves: "#, &[&count]),
        };
        html.fill(r#"<a href="{}">under way</a></p>"#, &[&way]);
    }
}

fn all_objects(blocker: &v1::Blocker) -> usize {
    blocker.objects.len() + usize::try_from(blocker.objects_rest_count).unwrap_or(0)
}

fn add_cause(html: &mut Html, view: &PageView, blocker: &v1::Blocker) {
    let none = if blocker.frees_count == 0 { " none" } else { "" };
    let markup = r#"<li><p class="count{}"><span class="hidden">Frees </span>{}</p><div>"#;
    html.fill(markup, &[&none, &blocker.frees_count]);
    if blocker.state() == v1::CauseState::Deadlock {
        add_deadlock(html, view, blocker);
    } else {
        add_what(html, view, blocker);
    }
    html.raw(r#"</div><div class="act">"#);
    add_act(html, blocker);
    add_frees(html, view, blocker);
    html.raw(r#"</div><p class="blocks"><span class="hidden">Holds up </span>"#);
    html.fill(r#"{}</p><p class="since">"#, &[&blocker.blocks_count]);
    add_since(html, blocker.since_time.as_ref());
    html.raw("</p></li>");
}

fn add_what(html: &mut Html, view: &PageView, blocker: &v1::Blocker) {
    html.raw("<h2>");
    add_state(html, blocker.state(), blocker.level());
    html.raw(" ");
    if let Some(need) = blocker.objects.first() {
        add_object(html, view, need, blocker.state());
    }
    match all_objects(blocker) {
        ..2 => {}
        2 => {
            html.raw(r#" <span class="note">and 1 more asks for the same</span>"#);
        }
        count => {
            let more = format!("and {} more ask for the same", count - 1);
            html.fill(r#" <span class="note">{}</span>"#, &[&more]);
        }
    }
    html.raw("</h2>");
    let is_known = blocker.level() != v1::Level::Unspecified;
    match blocker.state() {
        v1::CauseState::NotKnown if !is_known => html.raw("<p>It has no report. "),
        v1::CauseState::NotKnown => html.raw("<p>Nothing is known of it. "),
        v1::CauseState::Outside => html.raw("<p>It is outside of Bellwether. "),
        _ => html.raw("<p>"),
    };
    html.text(&blocker.message);
    if !blocker.named_by.is_empty() {
        html.raw("Needed by ");
        add_names(html, view, &blocker.named_by);
        html.raw(".");
    }
    html.raw("</p>");
}

fn add_deadlock(html: &mut Html, view: &PageView, blocker: &v1::Blocker) {
    html.raw(r#"<h2><span class="s deadlock">deadlock</span> "#);
    html.fill("of {} applications</h2>", &[&all_objects(blocker)]);
    let next = blocker.objects.iter().cycle().skip(1);
    let is_whole = blocker.objects_rest_count == 0;
    for (member, needed) in blocker.objects.iter().zip(next) {
        html.raw("<p>");
        add_object(html, view, member, blocker.state());
        if is_whole {
            html.labelled(" needs ", &name(needed));
        }
        html.raw("</p>");
    }
}

/// Adds what to do: the action, or what a cause of this state asks for.
fn add_act(html: &mut Html, blocker: &v1::Blocker) {
    use v1::CauseState::{Deadlock, NotKnown, NotReadable, Silent, Waiting};
    let namespace = blocker.objects.first().and_then(application).map(|(namespace, _)| namespace);
    action::add(html, &blocker.action);
    if !blocker.action.is_empty() {
        return;
    }
    match blocker.state() {
        Deadlock => html.raw("<p>Break it at either end.</p>"),
        Silent => html.raw("<p>Start the units, or remove them.</p>"),
        NotKnown => html.raw("<p>Is the name misspelt, or is it not there yet?</p>"),
        NotReadable => {
            let markup = r#"<p class="note">Ask a reader of namespace {}.</p>"#;
            html.fill(markup, &[&namespace.unwrap_or_default()])
        }
        Waiting => html,
        _ => html.raw(r#"<p class="note">No action given.</p>"#),
    };
}

fn add_frees(html: &mut Html, view: &PageView, blocker: &v1::Blocker) {
    if blocker.frees.is_empty() {
        return;
    }
    html.raw(r#"<p class="frees">Frees "#);
    add_names(html, view, &blocker.frees);
    let shown = i32::try_from(blocker.frees.len()).unwrap_or(i32::MAX);
    if shown < blocker.frees_count {
        html.fill(" and {} more", &[&(blocker.frees_count - shown)]);
    }
    html.raw("</p>");
}

/// Adds names of applications, each with a link to its reason.
fn add_names(html: &mut Html, view: &PageView, names: &[String]) {
    for (n, name) in names.iter().enumerate() {
        html.raw(if n == 0 { "" } else { ", " });
        let (namespace, application) = name.split_once('/').unwrap_or(("default", name));
        add_link(html, view, namespace, application);
    }
}

fn add_link(html: &mut Html, view: &PageView, namespace: &str, application: &str) {
    let to = PageView { is_blockers: false, ..view.with_why(namespace, application) };
    html.fill(r#"<a href="{}">{}/{}</a>"#, &[&to.url(), &namespace, &application]);
}

/// Adds the name of what is needed, with a link if the caller may read it.
pub fn add_object(html: &mut Html, view: &PageView, need: &v1::Need, state: v1::CauseState) {
    match application(need) {
        Some((namespace, name)) if state != v1::CauseState::NotReadable => {
            add_link(html, view, namespace, name);
        }
        _ => html.element("<b>", name(need), "</b>"),
    }
}

fn application(need: &v1::Need) -> Option<(&str, &str)> {
    match &need.object {
        Some(Object::Application(needed)) => Some((&needed.namespace, &needed.application)),
        _ => None,
    }
}

fn name(need: &v1::Need) -> String {
    match (&need.object, application(need)) {
        (_, Some((namespace, name))) => format!("{namespace}/{name}"),
        (Some(Object::Outside(words)), _) => words.clone(),
        _ => "-".into(),
    }
}

/// Adds the state of a cause with its shape.
pub fn add_state(html: &mut Html, state: v1::CauseState, level: v1::Level) {
    use v1::CauseState::{Deadlock, NotKnown, NotReadable, Outside, Silent};
    let (class, word) = match state {
        Deadlock => ("deadlock", "deadlock"),
        Silent => ("silent", "silent"),
        NotKnown if level == v1::Level::Unspecified => ("unknown", "not known"),
        Outside => ("outside", "outside"),
        NotReadable => ("outside", "not readable"),
        _ => return tags::add_level(html, level, false),
    };
    html.fill(r#"<span class="s {}">{}</span>"#, &[&class, &word]);
}

//! The controls above the list: groups, levels, namespace and search. All are links or fields of a
//! form, so that they work without scripts.

use std::collections::BTreeSet;

use super::group::{ListGroup, Tally};
use super::html::Html;
use super::view::{self, LEVELS, PageView, Sort};
use crate::proto::v1;
use crate::service::convert::level_word;

/// Adds the controls. `apps` are those of the namespace; the counts follow the search.
pub fn add(html: &mut Html, view: &PageView, apps: &[v1::Application]) {
    let named: Vec<&v1::Application> = apps.iter().filter(|app| view.has_name(app)).collect();
    let tally = Tally::of(named.iter().copied());
    html.raw(r#"<div class="tools" id="tools"><nav class="chips" aria-label="Show">"#);
    html.raw(r#"<span class="pair">"#);
    let all = PageView { levels: Vec::new(), show: None, ..view.without_why() };
    let all = PageView { wrong_level: String::new(), ..all };
    let attention = PageView { show: Some(ListGroup::Attention), ..all.clone() };
    let is_attention = view.show == Some(ListGroup::Attention) && view.levels.is_empty();
    let is_all = view.show.is_none() && view.levels.is_empty() && view.wrong_level.is_empty();
    add_chip(html, "attention", &attention, is_attention);
    html.fill("Needs attention <b>{}</b></a>", &[&tally.attention()]);
    add_chip(html, "all", &all, is_all);
    html.fill("All <b>{}</b></a></span>", &[&tally.all()]);
    for level in LEVELS {
        let count = named.iter().filter(|app| view::level(app) == level).count();
        let is_on = view.levels.contains(&level);
        if 0 < count || is_on {
            add_switch(html, view, level, is_on);
            html.fill("{} <b>{}</b></a>", &[&level_word(level), &count]);
        }
    }
    html.raw("</nav>");
    add_form(html, view, apps);
    html.raw("</div>");
}

fn add_chip(html: &mut Html, id: &str, to: &PageView, is_on: bool) {
    html.fill(r#"<a class="chip" id="show-{}" href="{}""#, &[&id, &to.url()]);
    html.raw(if is_on { r#" aria-current="true">"# } else { ">" });
}

fn add_switch(html: &mut Html, view: &PageView, level: v1::Level, is_on: bool) {
    let (word, to) = (level_word(level), view.switched(level).url());
    html.fill(r#"<a class="chip s {}" id="level-{}" href="{}""#, &[&word, &word, &to]);
    html.raw(if is_on { r#" aria-current="true">"# } else { ">" });
}

fn add_form(html: &mut Html, view: &PageView, apps: &[v1::Application]) {
    html.raw(r#"<form class="filter" id="filter" role="search" action="/">"#);
    html.raw(r#"<select name="ns" id="ns" aria-label="Namespace">"#);
    html.raw(r#"<option value="">All namespaces</option>"#);
    let namespaces: BTreeSet<&str> = apps.iter().map(|app| app.namespace.as_str()).collect();
    let selected = Some(view.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    for namespace in namespaces.into_iter().chain(selected).collect::<BTreeSet<_>>() {
        let is_selected = namespace == view.namespace;
        let open = if is_selected { "<option selected>" } else { "<option>" };
        html.element(open, namespace, "</option>");
    }
    html.raw(r#"</select><label class="search"><span class="hidden">Search by name</span>"#);
    html.raw(r#"<svg viewBox="0 0 16 16" aria-hidden="true"><circle cx="7" cy="7" r="4.5"/>"#);
    html.raw(r#"<path d="m10.5 10.5 4 4"/></svg><input type="search" name="q" id="q" "#);
    html.raw(r#"placeholder="Search" autocomplete="off" aria-keyshortcuts="/" "#);
    html.fill(r#"value="{}"></label>"#, &[&view.search]);
    add_kept(html, view);
    html.raw(r#"<noscript><button type="submit">Show</button></noscript></form>"#);
}

/// Adds the filters that the form keeps.
fn add_kept(html: &mut Html, view: &PageView) {
    let levels: Vec<&str> = view.levels.iter().map(|level| level_word(*level)).collect();
    let sort = match view.sort {
        Sort::Severity => "",
        Sort::Name => "name",
        Sort::Since => "since",
    };
    let kept = [
        ("level", levels.join(",")),
        ("show", view.show.map_or("", ListGroup::word).into()),
        ("sort", sort.into()),
    ];
    for (name, value) in kept.iter().filter(|(_, value)| !value.is_empty()) {
        html.fill(r#"<input type="hidden" name="{}" value="{}">"#, &[name, value]);
    }
}

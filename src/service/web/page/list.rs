//! The list of applications with its controls, as HTML.

use super::group::{ListGroup, Tally};
use super::html::Html;
use super::row::{self, Facts};
use super::tools;
use super::view::{LEVELS, PageView, Sort};
use crate::proto::v1;
use crate::service::convert::{level_word, severity};

/// Rows of one page; a filter shows the others.
pub const ROWS_MAX: usize = 500;

/// Adds the controls and the rows. The applications are sorted in the order of the view.
pub fn add(html: &mut Html, view: &PageView, apps: &[v1::Application], facts: &Facts) {
    tools::add(html, view, apps);
    let shown: Vec<&v1::Application> = apps.iter().filter(|app| view.has(app)).collect();
    if shown.is_empty() {
        add_none(html, view);
        return;
    }
    let has_past = !facts.pasts.is_empty();
    add_head(html, view, has_past);
    let rows = &shown[..shown.len().min(ROWS_MAX)];
    if view.sort == Sort::Severity {
        let tally = Tally::of(shown.iter().copied());
        for group in ListGroup::LISTED {
            let own = rows.iter().filter(|app| ListGroup::of(severity::of(app)) == group);
            add_group(html, view, (group, tally.in_group(group)), own.copied(), facts);
        }
    } else {
        html.raw(r#"<tbody role="rowgroup" id="rows-all">"#);
        rows.iter().for_each(|app| row::add(html, view, app, facts));
        html.raw("</tbody>");
    }
    html.raw("</table>");
    if ROWS_MAX < shown.len() {
        let rest = shown.len() - ROWS_MAX;
        html.fill(r#"<p class="none" id="rest">{} more; filter to see them.</p>"#, &[&rest]);
    }
}

/// Adds why there is no row.
fn add_none(html: &mut Html, view: &PageView) {
    html.raw(r#"<p class="none" id="none">"#);
    if view.wrong_level.is_empty() {
        html.raw("No application matches.");
    } else {
        let words = LEVELS.map(level_word).join(", ");
        html.fill("{} is no level. Levels: {}.", &[&view.wrong_level, &words]);
    }
    let all = if view.is_filtered() { view.without_filters() } else { PageView::default() };
    html.fill(r#" <a href="{}">Show all</a></p>"#, &[&all.url()]);
}

fn add_head(html: &mut Html, view: &PageView, has_past: bool) {
    html.raw(if has_past { r#"<table class="with-past""# } else { "<table" });
    html.raw(r#" id="apps" role="table"><caption class="hidden">Applications</caption>"#);
    html.raw(r#"<thead role="rowgroup"><tr role="row">"#);
    for (id, name, sort, order) in [
        ("status", "Status", Sort::Severity, "descending"),
        ("name", "Application", Sort::Name, "ascending"),
    ] {
        add_sorting(html, view, (id, name, ""), (sort, order));
    }
    html.raw(r#"<th role="columnheader" scope="col">Message and action</th>"#);
    html.raw(r#"<th role="columnheader" scope="col" class="heard">Heard</th>"#);
    let since = ("since", "Since", " class=\"since\"");
    add_sorting(html, view, since, (Sort::Since, "descending"));
    if has_past {
        html.raw(r#"<th role="columnheader" scope="col" class="head-past">"#);
        html.raw("<span>24 h ago</span><span>now</span></th>");
    }
    html.raw("</tr></thead>");
}

/// Adds the head of a column that sorts the list.
fn add_sorting(
    html: &mut Html,
    view: &PageView,
    (id, name, class): (&str, &str, &'static str),
    (sort, order): (Sort, &str),
) {
    html.raw(r#"<th role="columnheader" scope="col""#).raw(class);
    if view.sort == sort {
        html.fill(r#" aria-sort="{}""#, &[&order]);
    }
    let to = PageView { sort, ..view.without_why() };
    html.fill(r#"><a id="sort-{}" href="{}">{}</a></th>"#, &[&id, &to.url(), &name]);
}

/// Adds a group with its heading. A group without rows stays as a place for rows.
fn add_group<'a>(
    html: &mut Html,
    view: &PageView,
    (group, count): (ListGroup, usize),
    rows: impl Iterator<Item = &'a v1::Application>,
    facts: &Facts,
) {
    html.fill(r#"<tbody role="rowgroup" id="rows-{}" class="{}""#, &[&group.word(), &group.word()]);
    if count == 0 {
        html.raw(" hidden></tbody>");
        return;
    }
    html.raw(r#"><tr role="row" class="group"><th role="rowheader" scope="rowgroup" "#);
    html.fill(
        r#"colspan="{}"><b>{} {}</b>"#,
        &[&if facts.pasts.is_empty() { 5 } else { 6 }, &group.heading(), &count],
    );
    if group == ListGroup::Way {
        html.raw(" <span>no action is needed here: these heal themselves, or wait for one above");
        html.raw("</span>");
    }
    html.raw("</th></tr>\n");
    rows.for_each(|app| row::add(html, view, app, facts));
    html.raw("</tbody>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(query: &str, levels: &[v1::Level]) -> String {
        let apps = levels.iter().enumerate().map(|(n, level)| v1::Application {
            namespace: "prod".into(),
            name: format!("app-{n}"),
            unit_count: 1,
            status: Some(v1::AggregatedStatus { level: (*level).into(), ..Default::default() }),
            ..v1::Application::default()
        });
        let (mut apps, view): (Vec<_>, _) = (apps.collect(), PageView::of(query));
        view.sort(&mut apps);
        let mut html = Html::default();
        add(&mut html, &view, &apps, &Facts::default());
        html.as_str().to_string()
    }

    #[test]
    fn groups_have_headings_and_counts_of_all_their_rows() {
        use v1::Level::{Active, Error, Waiting};
        let levels = [vec![Active; ROWS_MAX], vec![Error, Waiting]].concat();
        let text = shown("", &levels);
        for part in ["<b>Needs attention 1</b>", "<b>Under way 1</b>", "<b>Fine 500</b>"] {
            assert!(text.contains(part), "{part}");
        }
        assert!(text.contains("2 more; filter to see them.") && text.contains("All <b>502</b>"));
        assert_eq!(text.matches("data-key=").count(), ROWS_MAX);
        let fine = shown("", &[Active]);
        assert_eq!(fine.matches("hidden></tbody>").count(), 2, "{fine}");
        let sorted = shown("sort=name", &[Active, Error]);
        assert!(!sorted.contains("class=\"group\""), "{sorted}");
        assert!(sorted.contains("aria-sort=\"ascending\"><a id=\"sort-name\""), "{sorted}");
    }

    #[test]
    fn a_filter_without_rows_says_why_and_leads_back() {
        let none = shown("q=other&ns=prod", &[v1::Level::Active]);
        assert!(none.contains("No application matches. <a href=\"/?ns=prod\">Show all"), "{none}");
        let wrong = shown("level=foo", &[v1::Level::Active]);
        let said = "foo is no level. Levels: error, blocked, unknown, maintenance, waiting, \
                    active, terminated. <a href=\"/\">Show all";
        assert!(wrong.contains(said), "{wrong}");
        assert!(shown("ns=other", &[]).contains("<a href=\"/\">Show all"));
    }
}

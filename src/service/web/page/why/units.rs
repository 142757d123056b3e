//! The units of an application: those that are not well first, the others folded.

use tonic::Status;

use super::rule::{LEADER, add_rest};
use super::{begin, command};
use crate::proto::v1;
use crate::service::convert::{level_word, severity};
use crate::service::web::page::html::Html;
use crate::service::web::page::moment::add_since;
use crate::service::web::page::tags;
use crate::service::web::page::{add_failure, row};

/// Units that are not well, shown with their message.
const UNWELL_MAX: usize = 20;
/// Units that are folded.
const FOLDED_MAX: usize = 1000;

/// Adds the units.
pub fn add(html: &mut Html, app: &v1::Application, units: &Result<Vec<v1::Unit>, Status>) {
    if app.unit_count == 0 {
        return;
    }
    let leads = if app.leader.is_empty() { "" } else { " \u{b7} * leads" };
    let note = format!("{} of {} reported in time{leads}", row::heard(app), app.unit_count);
    begin(html, "units", "Units", &note);
    match units {
        Ok(units) => add_sorted(html, app, units),
        Err(status) => add_failure(html, status),
    }
    html.raw("</div>");
}

fn add_sorted(html: &mut Html, app: &v1::Application, units: &[v1::Unit]) {
    let is_unwell = |unit: &&v1::Unit| {
        severity::is_silent(unit)
            || ![v1::Level::Active, v1::Level::Terminated].contains(&unit.level())
    };
    let mut unwell: Vec<&v1::Unit> = units.iter().filter(is_unwell).collect();
    unwell.sort_by_key(|unit| severity::of_unit(unit));
    let (shown, folded) = unwell.split_at(unwell.len().min(UNWELL_MAX));
    if !shown.is_empty() {
        html.raw(r#"<ul class="lines" id="unwell">"#);
        shown.iter().for_each(|unit| add_line(html, unit));
        html.raw("</ul>");
    }
    let well: Vec<&v1::Unit> = units.iter().filter(|unit| !is_unwell(unit)).collect();
    // One or two well units are seen at once.
    let all = shown.len() + folded.len() + well.len();
    if folded.is_empty() && all <= UNWELL_MAX / 4 {
        html.raw(r#"<ul class="lines" id="well">"#);
        well.iter().for_each(|unit| add_line(html, unit));
        html.raw("</ul>");
        return;
    }
    let rest = folded.iter().chain(&well).copied().take(FOLDED_MAX);
    let rest: Vec<&v1::Unit> = rest.collect();
    add_folded(html, &rest, if folded.is_empty() { "well" } else { "more" });
    add_rest(html, shown.len() + rest.len(), app.unit_count, &command(app, "status"));
}

/// Adds units as their names.
fn add_folded(html: &mut Html, units: &[&v1::Unit], word: &str) {
    if units.is_empty() {
        return;
    }
    let markup = r#"<details id="folded"><summary>{} {}</summary><ul class="names">"#;
    html.fill(markup, &[&units.len(), &word]);
    for unit in units {
        html.fill(r#"<li title="{}">{}"#, &[&level_word(unit.level()), &unit.name]);
        html.raw(if unit.leader { LEADER } else { "" }).raw("</li>");
    }
    html.raw("</ul></details>");
}

fn add_line(html: &mut Html, unit: &v1::Unit) {
    html.raw("<li>");
    if let Some(word) = tags::of_freshness(unit.freshness()) {
        html.fill(r#"<span class="s silent">{}</span>"#, &[&word]);
    } else {
        tags::add_level(html, unit.level(), false);
    }
    html.fill("<span><b>{}</b>", &[&unit.name]).raw(if unit.leader { LEADER } else { "" });
    html.raw(" ");
    if severity::is_silent(unit) {
        html.fill("last said {}", &[&level_word(unit.level())]);
        html.labelled(": ", &unit.message);
    } else {
        html.labelled("", &unit.component);
        html.labelled(if unit.component.is_empty() { "" } else { ": " }, &unit.message);
    }
    if unit.stopping_time.is_some() {
        html.raw(r#" <span class="mark">stopping</span>"#);
    }
    html.raw(r#"</span><span class="note">"#);
    add_since(html, unit.last_seen_time.as_ref());
    html.raw(" ago</span></li>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(n: usize, level: v1::Level, freshness: v1::Freshness) -> v1::Unit {
        v1::Unit {
            name: format!("web/{n}"),
            level: level.into(),
            freshness: freshness.into(),
            message: "text".into(),
            ..v1::Unit::default()
        }
    }

    fn shown(units: Vec<v1::Unit>, count: i32) -> String {
        let app = v1::Application {
            namespace: "prod".into(),
            name: "web".into(),
            unit_count: count,
            ..v1::Application::default()
        };
        let mut html = Html::default();
        add(&mut html, &app, &Ok(units));
        html.as_str().to_string()
    }

    #[test]
    fn units_that_are_not_well_are_first_and_the_rest_is_folded() {
        use v1::Freshness::{Fresh, Lost};
        use v1::Level::{Active, Blocked, Waiting};
        let mut units: Vec<_> = (0..150).map(|n| unit(n, Active, Fresh)).collect();
        units[149] = unit(149, Blocked, Fresh);
        units[88] = unit(88, Active, Lost);
        units[3] = unit(3, Waiting, Fresh);
        let text = shown(units.clone(), 10_150);
        let places = ["<b>web/149</b>", "<b>web/88</b>", "<b>web/3</b>", "147 well</summary>"];
        let places = places.map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")));
        assert!(places.is_sorted(), "{text}");
        assert!(text.contains("last said active: text"), "{text}");
        assert!(text.contains("10000 more: <code>bellwether -n prod status web"), "{text}");
        let many = (0..30).map(|n| unit(n, Blocked, Fresh)).collect();
        let text = shown(many, 30);
        assert_eq!(text.matches("<b>").count(), UNWELL_MAX);
        assert!(text.contains("10 more</summary>"), "{text}");
        let few = shown(vec![unit(0, Active, Fresh)], 1);
        assert!(few.contains("<b>web/0</b>") && !few.contains("details"), "{few}");
    }
}

//! A whole page with a list: the parts in their order, with title and alarm.

use super::frame::{self, Frame, Tabs};
use super::html::Html;
use super::needs::Needs;
use super::shared::List;
use super::view::PageView;
use super::{Asked, empty, moment, now_millis, watched};
use crate::service::web::inner::MemoryAge;

/// A page of a list.
pub struct Page<'a> {
    /// What the caller asks for.
    pub view: &'a PageView,
    /// What else the request says.
    pub asked: &'a Asked,
    /// The list of the view.
    pub list: &'a List,
    /// Since when the server has no contact with its store, or the relay with its upstream.
    pub as_of: &'a MemoryAge,
    /// The title of the application whose reason is shown; empty: none is.
    pub title: &'a str,
}

impl Page<'_> {
    /// Returns the whole text. `why` is the panel, if there is one.
    pub fn text(&self, needs: Option<&Needs>, why: &Html) -> String {
        let Page { view, list, .. } = self;
        let is_empty = list.tally.all() == 0 && view.namespace.is_empty() && !view.is_filtered();
        let mut main = Html::default();
        main.raw(if why.len() == 0 { "" } else { r#" class="split""# });
        let watch = watched(&view.namespace);
        main.fill(r#" data-watch="{}" data-digest="{}""#, &[&watch, &list.digest]);
        main.fill(r#" data-now="{}""#, &[&now_millis()]);
        if !self.as_of.since.is_empty() {
            main.fill(r#" data-as-of="{}""#, &[&self.as_of.since]);
        }
        if !self.as_of.upstream.is_empty() {
            main.fill(r#" data-upstream="{}""#, &[&self.as_of.upstream]);
        }
        main.raw(">");
        self.add_alarm(&mut main);
        if is_empty && why.len() == 0 {
            empty::add(&mut main, self.asked.is_tls, &self.asked.authority);
        } else {
            self.add_list(&mut main, needs);
        }
        main.append(why);
        let tabs = Tabs { view: (*view).clone(), causes: needs.map_or("".into(), Needs::count) };
        let frame = Frame {
            title: self.title(is_empty),
            icon: list.tally.icon(),
            name: self.asked.name().to_string(),
            tabs: (!is_empty).then_some(tabs),
            refreshes: view.why.is_empty(),
            has_session: self.asked.has_session,
            is_text: false,
        };
        let text = frame::around(&frame, &main);
        if view.why.is_empty() { text } else { selected(&text, &view.why) }
    }

    /// Adds the headline with what the view shows below it.
    fn add_list(&self, main: &mut Html, needs: Option<&Needs>) {
        let Page { view, list, .. } = self;
        main.raw(r#"<div class="list" id="list"><div class="top">"#);
        main.raw(r#"<h1 id="headline" aria-live="polite">"#).append(&list.headline);
        main.raw("</h1>");
        match (needs, view.is_blockers) {
            (Some(needs), true) => needs.add_sum(main),
            (Some(needs), false) => needs.add_first(main, &view.without_filters()),
            (None, _) => {}
        }
        main.raw("</div>");
        match (needs, view.is_blockers) {
            (Some(needs), true) => needs.add_all(main, &view.without_filters()),
            _ => {
                main.append(&list.html);
            }
        }
        main.raw("</div>");
    }

    /// Adds that the store is away, which is the only alert of a page without scripts.
    fn add_alarm(&self, main: &mut Html) {
        main.raw(r#"<div id="alarm">"#);
        if let Ok(since) = self.as_of.since.parse::<jiff::Timestamp>() {
            let since = prost_types::Timestamp { seconds: since.as_second(), nanos: 0 };
            let text = match self.as_of.upstream.as_str() {
                "" => "The server has had no contact with its store".to_string(),
                upstream => format!("This relay has had no contact with {upstream}"),
            };
            let markup = r#"<p class="alarm" role="alert">{} since {}. <span>"#;
            main.fill(markup, &[&text, &moment::full(&since)]);
            main.raw("Below is the last known state.</span></p>");
        }
        main.raw("</div>");
    }

    /// Returns the title of the tab.
    fn title(&self, is_empty: bool) -> String {
        if is_empty {
            return "Nothing reported yet".into();
        }
        let title = match self.title {
            "" => self.list.tally.title(),
            why => why.to_string(),
        };
        if self.as_of.since.is_empty() { title } else { format!("stale \u{b7} {title}") }
    }
}

/// Returns a page with the row of an application marked as the selected one. The rows are shared by
/// pages that have another one or none.
fn selected(page: &str, why: &str) -> String {
    let mut key = Html::default();
    key.fill(r#"data-key="{}""#, &[&why]);
    page.replacen(key.as_str(), &format!("{} aria-current=\"true\"", key.as_str()), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_marked_in_a_shared_list() {
        let page = r#"<tr data-key="a/b"></tr><tr data-key="a/&lt;"></tr>"#;
        let marked = selected(page, "a/<");
        assert_eq!(marked.matches("aria-current").count(), 1);
        assert!(marked.contains(r#"data-key="a/&lt;" aria-current="true""#), "{marked}");
        assert_eq!(selected(page, "a/other"), page);
    }
}

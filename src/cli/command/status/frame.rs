//! One screen of `status --watch`: the overview from the top left corner, cut to the rows of the
//! terminal. Only what can be seen is rendered, so that the work of a frame does not grow with the
//! units of a fleet.

use bellwether_client::Error;
use jiff::Timestamp;

use crate::cli::render;
use crate::cli::render::status::{ApplicationView, View, cut};
use crate::cli::render::text::fit;
use crate::cli::render::{Screen, one_line};
use crate::proto::v1::Application;

/// What a frame shows.
pub struct Overview<'a> {
    /// The URL of the server.
    pub server: &'a str,
    /// The namespace of all applications; absent for all, where each line names its own.
    pub namespace: Option<String>,
    /// The applications, in their order.
    pub applications: &'a [&'a ApplicationView],
    /// Applications whose units are not known yet: they are counted.
    pub pending: &'a [&'a Application],
    /// Why the overview is not current.
    pub trouble: Option<&'a Error>,
    /// Whether the tables have all columns.
    pub wide: bool,
}

/// Formats a frame for a terminal of this height. `rows` measures a line: the rows that it takes.
pub fn of(
    overview: &Overview<'_>,
    height: usize,
    screen: Screen,
    rows: impl Fn(&str) -> usize,
) -> String {
    let part = cut::to_height(overview.applications, height);
    let known = overview.applications.iter().map(|shown| &shown.application);
    let counts = render::status::counts(known.chain(overview.pending.iter().copied()));
    let lines_of = |pending: &&Application| 1 + usize::try_from(pending.unit_count).unwrap_or(0);
    let left_out = part.left_out + overview.pending.iter().map(lines_of).sum::<usize>();
    let shown = View {
        server: overview.server.to_string(),
        namespace: overview.namespace.clone(),
        applications: part.applications,
    };
    let now = Timestamp::now();
    let mut text = render::status::render_part(&counts, &shown, overview.wide, now, screen);
    if let Some(error) = overview.trouble {
        text = format!("! {}\n\n{text}", one_line(&error.to_string()));
    }
    drawn(&text, left_out, height, screen.width, rows)
}

/// Draws over the last frame without flicker, and clears the rest of the screen. `left_out` is the
/// number of lines that the text does not have.
fn drawn(
    text: &str,
    left_out: usize,
    height: usize,
    width: Option<usize>,
    rows: impl Fn(&str) -> usize,
) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // One row for the cursor.
    let mut shown = fitting(&lines, height.saturating_sub(1), &rows);
    let is_cut = shown < lines.len() || 0 < left_out;
    if is_cut {
        // And one for the note about the cut lines.
        shown = fitting(&lines, height.saturating_sub(2), &rows);
    }
    let mut frame = String::from("\x1b[H");
    for line in &lines[..shown] {
        frame.push_str(&format!("{line}\x1b[K\n"));
    }
    if is_cut {
        let more = format!("... and {} more lines", lines.len() - shown + left_out);
        frame.push_str(&format!("{}\x1b[K\n", fit(&more, width, 0)));
    }
    frame.push_str("\x1b[J");
    frame
}

/// Returns how many of the first lines fit into so many rows.
fn fitting(lines: &[&str], height: usize, rows: impl Fn(&str) -> usize) -> usize {
    let mut taken = 0;
    let fits = |line: &&&str| {
        taken += rows(line);
        taken <= height
    };
    lines.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::render::text;
    use crate::proto::v1::{AggregatedStatus, Level, Unit};
    use std::cell::Cell;

    fn drawn_plain(text: &str, left_out: usize, height: usize) -> String {
        drawn(text, left_out, height, None, |_| 1)
    }

    #[test]
    fn a_frame_never_scrolls() {
        let text = "one\ntwo\nthree\nfour\n";
        assert_eq!(
            drawn_plain(text, 0, 5),
            "\x1b[Hone\x1b[K\ntwo\x1b[K\nthree\x1b[K\nfour\x1b[K\n\x1b[J"
        );
        assert_eq!(
            drawn_plain(text, 0, 4),
            "\x1b[Hone\x1b[K\ntwo\x1b[K\n... and 2 more lines\x1b[K\n\x1b[J"
        );
        // A line that is never cut takes several rows.
        let width = Some(4);
        let rows = |line: &str| text::rows(line, width);
        let frame = drawn("one\n-> a long action\nthree\n", 0, 5, width, rows);
        assert!(frame.starts_with("\x1b[Hone\x1b[K\n... and 2"), "{frame:?}");
        let frame = drawn_plain("one\ntwo\n", 9_998, 5);
        assert!(frame.contains("two\x1b[K\n... and 9998 more lines"), "{frame:?}");
    }

    fn mk_application(number: usize) -> ApplicationView {
        let level = i32::from(if number == 1_234 { Level::Error } else { Level::Active });
        let unit = |n| Unit { name: format!("app-{number}/{n}"), level, ..Unit::default() };
        let status = AggregatedStatus { level, ..AggregatedStatus::default() };
        let name = format!("app-{number}");
        ApplicationView {
            application: Application {
                name,
                status: Some(status),
                unit_count: 10,
                ..Application::default()
            },
            units: (0..10).map(unit).collect(),
            ..ApplicationView::default()
        }
    }

    #[test]
    fn a_frame_of_a_large_fleet_measures_only_the_lines_of_a_screen() {
        let all: Vec<ApplicationView> = (0..2_000).map(mk_application).collect();
        let applications: Vec<&ApplicationView> = all.iter().collect();
        let pending: Vec<&Application> = all[1_900..].iter().map(|one| &one.application).collect();
        let overview = Overview {
            server: "http://h:1",
            namespace: Some("default".into()),
            applications: &applications[..1_900],
            pending: &pending,
            trouble: None,
            wide: false,
        };
        let measured = Cell::new(0_usize);
        let frame = of(&overview, 50, Screen::PLAIN, |_| {
            measured.set(measured.get() + 1);
            1
        });
        assert!(measured.get() <= 2 * 50, "{} lines are measured", measured.get());
        let lines: Vec<&str> = frame.lines().collect();
        assert_eq!(lines.len(), 50, "{frame}");
        assert!(lines[1].contains("1 error, 1999 active"), "{frame}");
        assert!(lines[4].starts_with("app-1234  error"), "{frame}");
        assert!(lines[48].starts_with("... and 219"), "{frame}");
    }
}

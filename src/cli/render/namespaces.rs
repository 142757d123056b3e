//! Namespaces as a table: how many applications each has, at which levels, and the worst one.

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use crate::cli::level;
use crate::cli::render::paint::Paint;
use crate::cli::render::table::{Cell, Table};
use crate::cli::render::text::{fit, marked};
use crate::cli::render::{Screen, one_line, time};
use crate::proto::v1::Namespace;
use crate::service::severity;

const HEADER: [&str; 5] = ["Namespace", "Apps", "Silent", "Levels", "Worst"];

/// Formats the table. On a terminal that is too narrow for it, the worst application is beneath its
/// namespace.
pub fn render(namespaces: &[Namespace], now: Timestamp, screen: Screen) -> String {
    let rows: Vec<Row> = namespaces.iter().map(|namespace| Row::of(namespace, now)).collect();
    let natural = table(&rows, Screen::PLAIN).lines().map(UnicodeWidthStr::width).max();
    match screen.width {
        Some(width) if Some(width) < natural => narrow(&rows, screen, width),
        _ => table(&rows, Screen { width: None, ..screen }),
    }
}

/// A row of the table.
struct Row {
    name: String,
    counts: [i32; 2],
    levels: String,
    /// The worst application, unless it is well.
    worst: (String, Paint),
}

impl Row {
    fn of(namespace: &Namespace, now: Timestamp) -> Row {
        let levels = namespace.applications_by_level.iter();
        let levels = levels.map(|of| format!("{} {}", of.count, level::word(of.level)));
        let Namespace { stale_applications, lost_applications, uncertain_applications, .. } =
            *namespace;
        let silent = stale_applications + lost_applications + uncertain_applications;
        Row {
            name: namespace.name.clone(),
            counts: [namespace.application_count, silent],
            levels: levels.collect::<Vec<_>>().join(", "),
            worst: worst(namespace, now),
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let [applications, silent] = self.counts.map(|count| count.to_string());
        vec![(&self.name).into(), applications.into(), silent.into(), (&self.levels).into()]
    }
}

/// Formats `db is blocked (3h): no backup target`; empty if the worst application is well.
fn worst(namespace: &Namespace, now: Timestamp) -> (String, Paint) {
    let Some(application) = namespace.worst.as_ref().filter(|worst| !severity::of(worst).is_fine())
    else {
        return Default::default();
    };
    let status = application.status.clone().unwrap_or_default();
    let since = time::short_age(status.since_time.as_ref(), now);
    let doubt = if severity::hides(application) { ", but has silent units" } else { "" };
    let message = marked(": ", &status.message);
    let level = level::word(status.level);
    let text = format!("{} is {level} ({since}){doubt}{message}", application.name);
    (one_line(&text), Paint::of_level(status.level))
}

fn head(header: &[&str], rows: &[Row]) -> Table {
    let has_silent = rows.iter().any(|row| 0 < row.counts[1]);
    let table = Table::new(header).right(&["Apps", "Silent"]).names(&["Namespace"]);
    table.only_if(has_silent, &["Silent"])
}

fn table(rows: &[Row], screen: Screen) -> String {
    let has_worst = rows.iter().any(|row| !row.worst.0.is_empty());
    let mut table = head(&HEADER, rows).only_if(has_worst, &["Worst"]);
    for row in rows {
        let mut cells = row.cells();
        cells.push(Cell::painted(&row.worst.0, row.worst.1));
        table.row(cells);
    }
    table.render(screen)
}

/// Formats the table with the worst application beneath each namespace.
fn narrow(rows: &[Row], screen: Screen, width: usize) -> String {
    let mut table = head(&HEADER[..4], rows).wrap("Levels");
    // A note begins four columns behind the names.
    let names = rows.iter().map(|row| row.name.width()).chain([HEADER[0].width()]);
    let indent = names.max().unwrap_or(0) + 4;
    for row in rows {
        table.row(row.cells());
        let worst = &row.worst.0;
        if !worst.is_empty() {
            table.note(&fit(worst, Some(width), indent));
        }
    }
    table.render(screen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{AggregatedStatus, Application, Level, LevelCount};

    fn mk_now() -> Timestamp {
        "2026-02-24T14:02:04Z".parse().expect("a timestamp")
    }

    fn mk_namespace(name: &str, levels: &[(Level, i32)], worst: &str, message: &str) -> Namespace {
        let since = mk_now() - jiff::SignedDuration::from_hours(3);
        let status = AggregatedStatus {
            level: levels[0].0.into(),
            message: message.into(),
            since_time: Some(time::to_wire(since)),
            ..AggregatedStatus::default()
        };
        let count =
            |(level, count): &(Level, i32)| LevelCount { level: (*level).into(), count: *count };
        Namespace {
            name: name.into(),
            application_count: levels.iter().map(|(_, count)| count).sum(),
            applications_by_level: levels.iter().map(count).collect(),
            worst: Some(Application {
                name: worst.into(),
                status: Some(status),
                ..Application::default()
            }),
            ..Namespace::default()
        }
    }

    fn mk_list() -> Vec<Namespace> {
        let prod = [(Level::Blocked, 1), (Level::Waiting, 2), (Level::Active, 9)];
        let prod = mk_namespace("prod", &prod, "postgresql", "add an s3 relation");
        vec![
            mk_namespace("lab", &[(Level::Active, 3)], "api", "ready"),
            Namespace { lost_applications: 1, stale_applications: 1, ..prod },
        ]
    }

    fn shown(list: &[Namespace], width: Option<usize>) -> String {
        render(list, mk_now(), Screen { width, color: false })
    }

    #[test]
    fn each_namespace_is_a_row_with_what_is_worst() {
        let expected = "\
Namespace  Apps  Silent  Levels                          Worst
lab           3       0  3 active
prod         12       2  1 blocked, 2 waiting, 9 active  postgresql is blocked (3h): add an s3 \
relation
";
        assert_eq!(shown(&mk_list(), None), expected);
        assert_eq!(shown(&mk_list(), Some(200)), expected);
    }

    #[test]
    fn a_column_without_values_is_left_out() {
        let expected = "Namespace  Apps  Levels\nlab           3  3 active\n";
        assert_eq!(shown(&mk_list()[..1], None), expected);
        assert_eq!(shown(&mk_list()[..1], Some(60)), expected);
    }

    #[test]
    fn a_narrow_terminal_has_what_is_worst_beneath() {
        let expected = "\
Namespace  Apps  Silent  Levels
lab           3       0  3 active
prod         12       2  1 blocked, 2 waiting, 9 active
             postgresql is blocked (3h): add an s3 relation
";
        assert_eq!(shown(&mk_list(), Some(60)), expected);
        let narrowest = shown(&mk_list(), Some(40));
        assert!(narrowest.lines().all(|line| line.width() <= 40), "{narrowest}");
        assert!(narrowest.contains("postgresql is blocked (3h)…\n"), "{narrowest}");
    }

    #[test]
    fn silence_is_said_beside_a_good_level() {
        let mut silent = mk_namespace("p", &[(Level::Active, 1)], "web", "a\u{1b}[2Jb\n");
        silent.stale_applications = 1;
        let status = silent.worst.as_mut().and_then(|worst| worst.status.as_mut());
        status.expect("a status").stale_units = 1;
        let text = shown(&[silent], None);
        assert!(text.contains("web is active (3h), but has silent units: a"), "{text}");
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
    }
}

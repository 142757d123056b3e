//! Open errors of applications as lines, and their targets as a table.

use jiff::Timestamp;

use crate::cli::render::faults::{class_word, line};
use crate::cli::render::table::{Cell, Table};
use crate::cli::render::{Screen, one_line, time};
use crate::proto::v1::{Fault, FaultTarget};

/// The applications beyond which the rest is counted.
const NAMED_MAX: usize = 3;

/// Formats errors as a line each, beneath the name of their application if there are several. No
/// text is cut.
pub fn list(faults: &[Fault], home: Option<&str>, now: Timestamp) -> String {
    let mut text = String::new();
    let mut last = None;
    for fault in faults {
        let application = (fault.namespace.as_str(), fault.application.as_str());
        let is_of_one = fault.application.is_empty();
        if !is_of_one && last != Some(application) {
            let name = match home {
                Some(_) => application.1.to_string(),
                None => format!("{}/{}", application.0, application.1),
            };
            text.push_str(&format!("{}\n", one_line(&name)));
            last = Some(application);
        }
        let indent = if is_of_one { "" } else { "  " };
        text.push_str(&format!("{indent}{}\n", line(fault, now)));
    }
    text
}

const HEADER: [&str; 6] = ["Units", "Apps", "Since", "Last", "Target", "Classes"];

/// Formats a row for each target, with the applications that have errors with it beneath. `home` is
/// the namespace of all of them, if it is one.
pub fn by_target(
    targets: &[FaultTarget],
    home: Option<&str>,
    now: Timestamp,
    screen: Screen,
) -> String {
    let table = Table::new(&HEADER).right(&HEADER[..2]).names(&["Target"]);
    let mut table = table.wrap("Classes");
    for target in targets {
        let classes: Vec<&str> = target.classes.iter().map(|class| class_word(*class)).collect();
        table.row(vec![
            target.unit_count.to_string().into(),
            target.application_count.to_string().into(),
            time::short_age(target.first_time.as_ref(), now).into(),
            time::short_age(target.last_time.as_ref(), now).into(),
            Cell::or_dash(&target.target),
            classes.join(", ").into(),
        ]);
        table.note(&named(target, home));
    }
    table.render(screen)
}

/// Names the first applications: `api, shop, web and 2 more`.
fn named(target: &FaultTarget, home: Option<&str>) -> String {
    let own = home.map(|home| format!("{home}/")).unwrap_or_default();
    let name = |name: &String| name.strip_prefix(&own).unwrap_or(name).to_string();
    let names: Vec<String> = target.applications.iter().take(NAMED_MAX).map(name).collect();
    let names = names.join(", ");
    match usize::try_from(target.application_count).unwrap_or(0).saturating_sub(NAMED_MAX) {
        0 => names,
        1 => format!("{names} and 1 more application"),
        more => format!("{names} and {more} more applications"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{ErrorClass, ErrorReport};

    fn mk_now() -> Timestamp {
        "2026-02-24T14:02:04Z".parse().expect("a timestamp")
    }

    fn ago(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(time::to_wire(mk_now() - jiff::SignedDuration::from_secs(seconds)))
    }

    fn mk_fault(application: &str, target: &str) -> Fault {
        let (namespace, application) = application.split_once('/').unwrap_or_default();
        Fault {
            namespace: namespace.into(),
            application: application.into(),
            unit: "web/0".into(),
            component: "db".into(),
            target: target.into(),
            class: ErrorClass::Transient.into(),
            count: 4,
            first_time: ago(12),
            last: Some(ErrorReport { message: "refused\u{1b}[2J".into(), ..Default::default() }),
            ..Fault::default()
        }
    }

    fn mk_target(target: &str, counts: [i32; 2], applications: &[&str]) -> FaultTarget {
        FaultTarget {
            target: target.into(),
            fault_count: counts[0],
            unit_count: counts[0],
            application_count: counts[1],
            applications: applications.iter().map(ToString::to_string).collect(),
            classes: vec![ErrorClass::Transient.into(), ErrorClass::Blocked.into()],
            first_time: ago(7200),
            last_time: ago(5),
        }
    }

    #[test]
    fn errors_are_lines_beneath_their_application() {
        let faults =
            [mk_fault("lab/web", "pg:5432"), mk_fault("lab/web", "s3"), mk_fault("prod/web", "s3")];
        let expected = "\
lab/web
  web/0 db pg:5432  TRANSIENT 4x in 12s: refused [2J
  web/0 db s3  TRANSIENT 4x in 12s: refused [2J
prod/web
  web/0 db s3  TRANSIENT 4x in 12s: refused [2J
";
        assert_eq!(list(&faults, None, mk_now()), expected);
        let own = list(&faults[..1], Some("lab"), mk_now());
        assert_eq!(own.lines().next(), Some("web"));
        let of_one = list(&[mk_fault("", "s3")], Some("lab"), mk_now());
        assert_eq!(of_one, "web/0 db s3  TRANSIENT 4x in 12s: refused [2J\n");
    }

    #[test]
    fn each_target_is_a_row_with_those_who_see_it() {
        let many = ["prod/api", "prod/db", "prod/shop", "prod/web"];
        let targets =
            [mk_target("s3.example.org", [9, 6], &many), mk_target("", [1, 1], &["lab/x"])];
        let expected = "\
Units  Apps  Since  Last  Target          Classes
    9     6  2h     5s    s3.example.org  TRANSIENT, BLOCKED
         prod/api, prod/db, prod/shop and 3 more applications
    1     1  2h     5s    -               TRANSIENT, BLOCKED
         lab/x
";
        assert_eq!(by_target(&targets, None, mk_now(), Screen::PLAIN), expected);
        let own = by_target(&targets[..1], Some("prod"), mk_now(), Screen::PLAIN);
        assert!(own.contains("  api, db, shop and 3 more applications\n"), "{own}");
    }

    #[test]
    fn a_narrow_terminal_has_every_column() {
        use unicode_width::UnicodeWidthStr;
        let target = "https://a-very-long-host.of-a-registry.example.org:8443/v2/";
        let targets = [mk_target(target, [9, 1], &["prod/api"])];
        let screen = Screen { width: Some(60), color: false };
        let text = by_target(&targets, None, mk_now(), screen);
        assert!(text.lines().all(|line| line.width() <= 60), "{text}");
        assert!(text.contains('…') && text.contains("BLOCKED"), "{text}");
    }
}

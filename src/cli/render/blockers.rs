//! What blocks, as a table: each first cause once, with what to do about it.

use std::collections::HashMap;

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use crate::cli::level;
use crate::cli::render::need;
use crate::cli::render::paint::Paint;
use crate::cli::render::table::{Cell, Table};
use crate::cli::render::text::marked;
use crate::cli::render::{Screen, one_line, time};
use crate::proto::v1::{Blocker, CauseState, Level, ListBlockersResponse, Need};

/// The members of a deadlock, and the applications that name a cause, beyond which the rest is
/// counted.
const NAMED_MAX: usize = 3;

/// The names that the server sends at most of the applications that name a cause.
const SENT_MAX: usize = 8;

/// What the table is for.
pub struct View<'a> {
    /// The namespace whose applications are listed; `None` for all.
    pub home: Option<&'a str>,
    /// How many units are silent, in words, by the full name of their application.
    pub silent: &'a HashMap<String, String>,
    /// The time of the answer.
    pub now: Timestamp,
    /// Where the text goes.
    pub screen: Screen,
}

/// Formats the list; empty if nothing is in it.
pub fn render(list: &ListBlockersResponse, view: &View<'_>) -> String {
    if list.blockers.is_empty() {
        return String::new();
    }
    let rows: Vec<Row> = list.blockers.iter().map(|blocker| view.row(blocker)).collect();
    let natural = || table(&rows, Screen::PLAIN).lines().map(UnicodeWidthStr::width).max();
    let text = match view.screen.width {
        // An action is never cut nor broken, so that it can be copied.
        Some(width) if Some(width) < natural() => narrow(&rows, view.screen),
        _ => table(&rows, Screen { width: None, ..view.screen }),
    };
    let more = match list.self_healing_count {
        count if count <= 0 => String::new(),
        1 => "1 more heals itself\n".to_string(),
        count => format!("{count} more heal themselves\n"),
    };
    text + &more
}

/// A row of the table.
struct Row {
    counts: [String; 2],
    since: String,
    cause: (String, Paint),
    to_do: String,
    /// An action beside what is to do.
    note: String,
}

const HEADER: [&str; 5] = ["Frees", "Blocks", "Since", "Cause", "Do this"];

fn table(rows: &[Row], screen: Screen) -> String {
    let mut table = Table::new(&HEADER).right(&HEADER[..2]);
    for row in rows {
        let mut cells = row.cells();
        cells.push(row.to_do.as_str().into());
        table.row(cells);
        row.notes("").iter().for_each(|note| table.note(note));
    }
    table.render(screen)
}

/// Formats the table with what is to do beneath each cause.
fn narrow(rows: &[Row], screen: Screen) -> String {
    let mut table = Table::new(&HEADER[..4]).right(&HEADER[..2]).wrap("Cause");
    for row in rows {
        table.row(row.cells());
        row.notes(&row.to_do).iter().for_each(|note| table.note(note));
    }
    table.render(screen)
}

impl Row {
    fn cells(&self) -> Vec<Cell> {
        let (cause, paint) = &self.cause;
        let [frees, blocks] = &self.counts;
        vec![frees.into(), blocks.into(), (&self.since).into(), Cell::painted(cause, *paint)]
    }

    fn notes(&self, to_do: &str) -> Vec<String> {
        let notes = [to_do, &self.note].into_iter().filter(|note| !note.is_empty());
        notes.map(|note| format!("-> {note}")).collect()
    }
}

impl View<'_> {
    fn row(&self, blocker: &Blocker) -> Row {
        let is_deadlock = blocker.state() == CauseState::Deadlock;
        let action = one_line(&blocker.action);
        let to_do = match action.as_str() {
            _ if is_deadlock => self.ends_of(blocker),
            "" => self.facts(blocker),
            action => action.to_string(),
        };
        let paint = match blocker.state() {
            CauseState::Deadlock => Paint::of_level(Level::Blocked.into()),
            _ => Paint::of_level(blocker.level),
        };
        Row {
            counts: [blocker.frees_count.to_string(), blocker.blocks_count.to_string()],
            since: time::short_age(blocker.since_time.as_ref(), self.now),
            cause: (self.cause(blocker), paint),
            to_do,
            note: if is_deadlock { marked("action: ", &action) } else { String::new() },
        }
    }

    /// Says what the cause is.
    fn cause(&self, blocker: &Blocker) -> String {
        let [first, more @ ..] = blocker.objects.as_slice() else { return "-".to_string() };
        let name = need::name(first, self.home);
        match blocker.state() {
            CauseState::Deadlock => match self.away(blocker) {
                Some(namespace) => format!("deadlock in {}", one_line(namespace)),
                None => "deadlock".to_string(),
            },
            CauseState::Silent => format!("{name} has silent units"),
            CauseState::NotKnown if blocker.level == 0 => format!("{name} is not known"),
            CauseState::Outside | CauseState::NotReadable => name,
            _ => {
                let is = format!("{name} is {}", level::word(blocker.level));
                match count(more, blocker.objects_rest_count) {
                    0 => is,
                    1 => format!("{is}, and 1 more asks for the same"),
                    count => format!("{is}, and {count} more ask for the same"),
                }
            }
        }
    }

    /// Says what there is to know about a cause without an action.
    fn facts(&self, blocker: &Blocker) -> String {
        let message = one_line(&blocker.message);
        let named = || marked("named by ", &self.named_by(blocker));
        match blocker.state() {
            CauseState::Silent => {
                let object = blocker.objects.first().map(|object| need::name(object, None));
                let words = object.and_then(|object| self.silent.get(&object));
                words.cloned().unwrap_or(message)
            }
            CauseState::NotKnown if blocker.level == 0 => format!("misspelt? {}", named()),
            CauseState::Outside => format!("(outside) {}", named()),
            CauseState::NotReadable => format!("(not readable) {}", named()),
            _ => message,
        }
    }

    /// Names the applications that need it: `prod/shop, prod/web`.
    fn named_by(&self, blocker: &Blocker) -> String {
        let own = self.home.map(|home| format!("{home}/")).unwrap_or_default();
        let name = |name: &String| one_line(name.strip_prefix(&own).unwrap_or(name));
        let names: Vec<String> = blocker.named_by.iter().take(NAMED_MAX).map(name).collect();
        let more = blocker.named_by.len().saturating_sub(NAMED_MAX);
        match more {
            0 => names.join(", "),
            // There may be others that the answer does not have.
            _ if blocker.named_by.len() == SENT_MAX => format!("{} and others", names.join(", ")),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }

    /// Says who waits for whom in a deadlock, and where it can be ended.
    fn ends_of(&self, blocker: &Blocker) -> String {
        let home = self.away(blocker).or(self.home);
        let name = |member: &Need| need::name(member, home);
        if let [one, other] = &blocker.objects[..] {
            let (one, other) = (name(one), name(other));
            return format!("{one} needs {other}, {other} needs {one}: break it at either end");
        }
        let members: Vec<String> = blocker.objects.iter().take(NAMED_MAX).map(name).collect();
        let rest = blocker.objects.get(NAMED_MAX..).unwrap_or_default();
        let rest = match count(rest, blocker.objects_rest_count) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        format!("{}{rest} need each other: break it at one of them", members.join(", "))
    }

    /// Returns the namespace of all members of a deadlock, if it is none that the reader asked for.
    fn away<'b>(&self, blocker: &'b Blocker) -> Option<&'b str> {
        let mut namespaces = blocker.objects.iter().map(need::namespace);
        let first = namespaces.next().flatten()?;
        let is_one = namespaces.all(|other| other == Some(first));
        (is_one && self.home != Some(first)).then_some(first)
    }
}

/// Counts objects that are listed or counted.
fn count(listed: &[Need], rest: i32) -> usize {
    listed.len() + usize::try_from(rest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::ApplicationNeed;
    use crate::proto::v1::need::Object;

    fn mk_now() -> Timestamp {
        "2026-02-24T14:02:04Z".parse().expect("a timestamp")
    }

    fn mk_object(text: &str) -> Need {
        let object = match text.split_once('/') {
            Some((namespace, application)) => Object::Application(ApplicationNeed {
                namespace: namespace.into(),
                application: application.into(),
                levels: Vec::new(),
            }),
            None => Object::Outside(text.into()),
        };
        Need { object: Some(object) }
    }

    fn mk_blocker(state: CauseState, objects: &[&str], minutes: i64) -> Blocker {
        let since = mk_now() - jiff::SignedDuration::from_mins(minutes);
        Blocker {
            state: state.into(),
            objects: objects.iter().map(|text| mk_object(text)).collect(),
            since_time: Some(time::to_wire(since)),
            ..Blocker::default()
        }
    }

    fn mk_list() -> ListBlockersResponse {
        let named_by = vec!["prod/shop".to_string(), "prod/web".to_string()];
        let blockers = vec![
            Blocker {
                frees_count: 9,
                blocks_count: 12,
                level: Level::Blocked.into(),
                action: "juju integrate postgresql s3-integrator".into(),
                ..mk_blocker(CauseState::Person, &["prod/postgresql"], 180)
            },
            Blocker {
                frees_count: 2,
                blocks_count: 2,
                named_by: named_by.clone(),
                ..mk_blocker(CauseState::Outside, &["quota cpu of prod"], 20)
            },
            Blocker {
                frees_count: 2,
                blocks_count: 3,
                level: Level::Waiting.into(),
                ..mk_blocker(CauseState::Deadlock, &["prod/data", "prod/main"], 11)
            },
            Blocker {
                blocks_count: 4,
                level: Level::Active.into(),
                ..mk_blocker(CauseState::Silent, &["infra/dns"], 6)
            },
            Blocker { named_by, ..mk_blocker(CauseState::NotKnown, &["prod/posgresql"], 1) },
        ];
        ListBlockersResponse { blockers, self_healing_count: 14, ..Default::default() }
    }

    fn shown(list: &ListBlockersResponse, home: Option<&str>, width: Option<usize>) -> String {
        let silent = HashMap::from([("infra/dns".into(), "2 of 3 units lost".to_string())]);
        let screen = Screen { width, color: false };
        render(list, &View { home, silent: &silent, now: mk_now(), screen })
    }

    fn shown_one(blocker: Blocker, home: Option<&str>) -> (String, String) {
        let list = ListBlockersResponse { blockers: vec![blocker], ..Default::default() };
        let text = shown(&list, home, None);
        let line = text.lines().nth(1).expect("a row").split("  ").filter(|cell| !cell.is_empty());
        let cells: Vec<&str> = line.collect();
        (cells[3].trim().to_string(), cells.get(4).map(ToString::to_string).unwrap_or_default())
    }

    #[test]
    fn each_cause_is_a_row_with_what_to_do() {
        let expected = "\
Frees  Blocks  Since  Cause                        Do this
    9      12  3h     prod/postgresql is blocked   juju integrate postgresql s3-integrator
    2       2  20m    quota cpu of prod            (outside) named by prod/shop, prod/web
    2       3  11m    deadlock in prod             data needs main, main needs data: \
break it at either end
    0       4  6m     infra/dns has silent units   2 of 3 units lost
    0       0  1m     prod/posgresql is not known  misspelt? named by prod/shop, prod/web
14 more heal themselves
";
        assert_eq!(shown(&mk_list(), None, None), expected);
    }

    #[test]
    fn the_namespace_that_was_asked_for_is_left_out() {
        let text = shown(&mk_list(), Some("prod"), None);
        for expected in [
            "3h     postgresql is blocked ",
            "named by shop, web\n",
            "  deadlock     ",
            "data needs main, main needs data:",
            "  infra/dns has silent units  ",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
        }
    }

    #[test]
    fn a_narrow_terminal_has_what_to_do_on_lines_of_their_own() {
        let expected = "\
Frees  Blocks  Since  Cause
    9      12  3h     prod/postgresql is blocked
         -> juju integrate postgresql s3-integrator
    2       2  20m    quota cpu of prod
         -> (outside) named by prod/shop, prod/web
    2       3  11m    deadlock in prod
         -> data needs main, main needs data: break it at either end
    0       4  6m     infra/dns has silent units
         -> 2 of 3 units lost
    0       0  1m     prod/posgresql is not known
         -> misspelt? named by prod/shop, prod/web
14 more heal themselves
";
        assert_eq!(shown(&mk_list(), None, Some(60)), expected);
        assert_eq!(shown(&mk_list(), None, Some(200)), shown(&mk_list(), None, None));
        let narrowest = shown(&mk_list(), None, Some(40));
        assert!(narrowest.contains("prod/posgresql is\n"), "{narrowest}");
        assert!(narrowest.contains("-> juju integrate postgresql s3-integrator\n"), "{narrowest}");
    }

    #[test]
    fn each_state_has_its_words() {
        use CauseState::{Failed, NotKnown, NotReadable, Person, Unspecified};
        use Level::{Error, Terminated, Unknown};
        for (state, level, cause, to_do) in [
            (Person, Terminated, "prod/db is terminated", "so"),
            (Failed, Error, "prod/db is error", "so"),
            (NotKnown, Unknown, "prod/db is unknown", "so"),
            (NotReadable, Level::Unspecified, "prod/db", "(not readable) named by a/b"),
            (Unspecified, Error, "prod/db is error", "so"),
        ] {
            let blocker = Blocker {
                level: level.into(),
                message: "so".into(),
                named_by: vec!["a/b".into()],
                ..mk_blocker(state, &["prod/db"], 1)
            };
            assert_eq!(shown_one(blocker, None), (cause.into(), to_do.into()), "{state:?}");
        }
    }

    #[test]
    fn several_objects_are_counted() {
        let asks = |objects: &[&str], rest| Blocker {
            level: Level::Blocked.into(),
            action: "approve".into(),
            objects_rest_count: rest,
            ..mk_blocker(CauseState::Person, objects, 1)
        };
        let (two, _) = shown_one(asks(&["prod/a", "prod/b"], 0), Some("prod"));
        assert_eq!(two, "a is blocked, and 1 more asks for the same");
        let (many, _) = shown_one(asks(&["prod/a", "prod/b"], 5), Some("prod"));
        assert_eq!(many, "a is blocked, and 6 more ask for the same");
        let circle = |objects: &[&str]| mk_blocker(CauseState::Deadlock, objects, 1);
        let (cause, to_do) = shown_one(circle(&["a/x", "a/y", "a/z", "a/zz"]), None);
        let expected = "x, y, z and 1 more need each other: break it at one of them";
        assert_eq!((cause.as_str(), to_do.as_str()), ("deadlock in a", expected));
        let (cause, to_do) = shown_one(circle(&["a/x", "b/y"]), Some("a"));
        let expected = "x needs b/y, b/y needs x: break it at either end";
        assert_eq!((cause.as_str(), to_do.as_str()), ("deadlock", expected));
        let named = |count: usize| Blocker {
            named_by: (0..count).map(|n| format!("p/{n}")).collect(),
            ..mk_blocker(CauseState::Outside, &["a quota"], 1)
        };
        assert_eq!(shown_one(named(5), None).1, "(outside) named by p/0, p/1, p/2 and 2 more");
        assert_eq!(shown_one(named(8), None).1, "(outside) named by p/0, p/1, p/2 and others");
    }

    #[test]
    fn a_deadlock_keeps_the_action_of_a_member() {
        let asks = Blocker {
            action: "juju resolve main/0".into(),
            ..mk_blocker(CauseState::Deadlock, &["a/data", "a/main"], 1)
        };
        let list = ListBlockersResponse { blockers: vec![asks], ..Default::default() };
        for width in [None, Some(60)] {
            let text = shown(&list, Some("a"), width);
            assert!(text.contains("main needs data: break it at either end\n"), "{text}");
            assert!(text.contains("-> action: juju resolve main/0\n"), "{text}");
        }
    }

    #[test]
    fn an_empty_list_has_no_table() {
        let list = ListBlockersResponse { self_healing_count: 2, ..Default::default() };
        assert_eq!(shown(&list, None, None), "");
        let list = ListBlockersResponse { self_healing_count: 1, ..mk_list() };
        assert!(shown(&list, None, None).ends_with("\n1 more heals itself\n"));
    }

    #[test]
    fn texts_of_others_move_no_cursor() {
        let blocker = Blocker {
            action: "a\u{1b}[2J\nb".into(),
            ..mk_blocker(CauseState::Person, &["quota\u{9b}x\ny"], 1)
        };
        let list = ListBlockersResponse { blockers: vec![blocker], ..Default::default() };
        for width in [None, Some(20)] {
            let text = shown(&list, None, width);
            assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
        }
    }
}

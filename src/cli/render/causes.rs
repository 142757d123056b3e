//! The needs of one application, followed to their first causes: `because` lines.

use jiff::Timestamp;

use crate::cli::render::need::{self, first_and_count};
use crate::cli::render::status::part_of;
use crate::cli::render::text::{labelled, marked};
use crate::cli::render::{Screen, one_line, time};
use crate::cli::{level, span};
use crate::proto::v1::need::Object;
use crate::proto::v1::{Application, Cause, CauseState, ExplainApplicationResponse};

/// Columns before the text of a line: `  because  `.
const LABEL: usize = 11;

/// Columns by which a line begins further right than the one whose need it is.
const STEP: usize = 2;

/// A line steps to the right at most so often, so that a long chain stays on the screen.
const STEPS_MAX: usize = 12;

/// Formats the causes, with a line end after each line; empty if there are none. Actions are never
/// broken into lines, so that they can be copied.
pub fn render(why: &ExplainApplicationResponse, now: Timestamp, screen: Screen) -> String {
    let unknown = Application::default();
    let application = why.application.as_ref().unwrap_or(&unknown);
    let chain = Chain { causes: &why.causes, application, now };
    let mut text = String::new();
    for (place, cause) in why.causes.iter().enumerate() {
        let depth = usize::try_from(cause.depth.saturating_sub(1)).unwrap_or(0);
        let label = if depth == 0 { "because" } else { "" };
        let column = LABEL + STEP * depth.min(STEPS_MAX);
        let freed = chain.freed(place);
        let says = chain.says(cause);
        let asks = chain.shows_action(cause);
        let note =
            |freed: &str| if freed.is_empty() { String::new() } else { format!("  ({freed})") };
        let said = if asks { says } else { format!("{says}{}", note(&freed)) };
        text.push_str(&labelled(label, column, &said, screen.width));
        if asks {
            let action = format!("-> action: {}{}", one_line(&cause.action), note(&freed));
            text.push_str(&format!("{}{action}\n", " ".repeat(column)));
        }
    }
    for rest in rest(why.causes_rest_count, application.needs_rest_count) {
        text.push_str(&labelled("", LABEL, &rest, screen.width));
    }
    text
}

/// Returns the causes as plain lines, at most so many, for a message or an environment.
pub fn plain(why: &ExplainApplicationResponse, now: Timestamp, count_max: usize) -> Vec<String> {
    let text = render(why, now, Screen::PLAIN);
    let lines = text.lines().map(|line| line.trim().trim_start_matches("because").trim());
    lines.take(count_max).map(str::to_string).collect()
}

/// Counts the causes and the needs that have no line.
fn rest(causes: i32, needs: i32) -> impl Iterator<Item = String> {
    let causes = (0 < causes).then(|| format!("and {causes} more"));
    let needs = (0 < needs).then(|| format!("and {needs} more needs, which are not followed"));
    causes.into_iter().chain(needs)
}

/// The causes of one application.
struct Chain<'a> {
    causes: &'a [Cause],
    application: &'a Application,
    now: Timestamp,
}

impl Chain<'_> {
    fn name(&self, cause: &Cause) -> String {
        let home = Some(self.application.namespace.as_str());
        cause.need.as_ref().map_or_else(String::new, |needed| need::name(needed, home))
    }

    /// Says how it is with what is needed.
    fn says(&self, cause: &Cause) -> String {
        let (name, state) = (self.name(cause), cause.state());
        let age = self.age(cause);
        if cause.repeated_above {
            return match state {
                CauseState::Deadlock => {
                    format!("{name} (above): deadlock since {}", self.at(cause))
                }
                _ => format!("{name} (above)"),
            };
        }
        let level = level::word(cause.level);
        let (wanted, message) = (wanted(cause), marked(": ", &one_line(&cause.message)));
        match state {
            CauseState::NotReadable => format!("{name}: you may not read it"),
            CauseState::Outside => format!("{name}{age}: outside of Bellwether"),
            CauseState::NotKnown if cause.level == 0 => format!("{name} is not known: misspelt?"),
            CauseState::Met => {
                let since = self.at(cause);
                format!("{name} is {level} since {since}; {}", self.not_yet(cause))
            }
            CauseState::Silent => {
                format!("{name} is {level}{wanted}, but has silent units{message}")
            }
            CauseState::Waiting | CauseState::Deadlock => {
                format!("{name} is {level}{wanted}{message}")
            }
            _ => format!("{name} is {level}{age}{wanted}{message}"),
        }
    }

    /// Says who still states a need that is met.
    fn not_yet(&self, cause: &Cause) -> String {
        let by = cause.stated_by.clone().unwrap_or_default();
        let unit = if by.unit.is_empty() { &self.application.name } else { &by.unit };
        let who = format!("{unit} {}", part_of(&by));
        format!("{} has not reported otherwise since", one_line(who.trim_end()))
    }

    /// Formats ` (3h)`; nothing if the start is unknown.
    fn age(&self, cause: &Cause) -> String {
        let since = time::from_wire(cause.since_time.as_ref());
        since.map_or_else(String::new, |since| {
            format!(" ({})", span::short(time::age(since, self.now)))
        })
    }

    fn at(&self, cause: &Cause) -> String {
        let since = time::from_wire(cause.since_time.as_ref());
        since.map_or("-".to_string(), |since| time::clock(since, self.now))
    }

    fn shows_action(&self, cause: &Cause) -> bool {
        !cause.action.is_empty() && !cause.repeated_above && cause.state() != CauseState::Met
    }

    /// Says how many applications get well with a cause alone, and whether this one does. The line
    /// that closes a circle says it for the circle.
    fn freed(&self, place: usize) -> String {
        let cause = &self.causes[place];
        match cause.state() {
            CauseState::Deadlock if cause.repeated_above => {
                let above = self.causes[..place].iter().rev();
                let parent = above.clone().find(|above| above.depth < cause.depth);
                let parent = parent.filter(|parent| parent.state() == CauseState::Deadlock);
                parent.map_or_else(String::new, |parent| self.frees(parent))
            }
            CauseState::Person
            | CauseState::Failed
            | CauseState::Silent
            | CauseState::NotKnown
            | CauseState::Outside
                if !cause.repeated_above =>
            {
                self.frees(cause)
            }
            _ => String::new(),
        }
    }

    fn frees(&self, cause: &Cause) -> String {
        let own = one_line(&self.application.name);
        match (cause.frees_count, cause.frees_this) {
            (0 | 1, true) => format!("frees {own}"),
            (count, true) => format!("frees {count}, {own} among them"),
            (0, false) => self.beside(cause, &own),
            (count, false) => format!("frees {count}; {}", self.beside(cause, &own)),
        }
    }

    /// Names what else the application needs.
    fn beside(&self, cause: &Cause, own: &str) -> String {
        let mut others: Vec<&Cause> = Vec::new();
        for other in self.causes.iter().filter(|other| is_first(other)) {
            if !is_same(cause, other) && !others.iter().any(|known| is_same(known, other)) {
                others.push(other);
            }
        }
        match others[..] {
            [] => format!("not {own} alone"),
            [first, ref more @ ..] => {
                let others = first_and_count(&self.name(first), more.len());
                format!("not {own} alone, which needs {others} too")
            }
        }
    }
}

/// Whether a line is a first cause, and the first line about it.
fn is_first(cause: &Cause) -> bool {
    let state = cause.state();
    let waits = matches!(state, CauseState::Unspecified | CauseState::Waiting | CauseState::Met);
    !waits && !cause.repeated_above
}

/// Whether two lines are about one cause: one object, one deadlock, or one thing to do.
fn is_same(one: &Cause, other: &Cause) -> bool {
    let namespace =
        |cause: &Cause| cause.need.as_ref().and_then(need::namespace).map(str::to_string);
    let is_one = |state: CauseState| one.state() == state && other.state() == state;
    let of = |cause: &Cause| cause.need.as_ref().map(|needed| need::name(needed, None));
    let asks = !one.action.is_empty() && one.action == other.action;
    of(one) == of(other)
        || is_one(CauseState::Deadlock) && one.since_time == other.since_time
        || is_one(CauseState::Person) && asks && namespace(one) == namespace(other)
}

/// Formats `, needed at waiting or terminated`; nothing for a need of active alone.
fn wanted(cause: &Cause) -> String {
    match cause.need.as_ref().and_then(|need| need.object.as_ref()) {
        Some(Object::Application(needed)) if !needed.levels.is_empty() => {
            let words = needed.levels.iter().map(|level| level::word(*level));
            format!(", needed at {}", words.collect::<Vec<_>>().join(" or "))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{ApplicationNeed, Level, Need, StatusRef};

    const NOW: &str = "2026-02-24T14:02:04Z";

    fn mk_now() -> Timestamp {
        NOW.parse().expect("a timestamp")
    }

    /// A need of `prod/NAME`, of `NAMESPACE/NAME`, or of something outside.
    fn mk_need(text: &str) -> Need {
        let object = match text.split_once('/').unwrap_or(("prod", text)) {
            (_, words) if words.contains(' ') => Object::Outside(words.into()),
            (namespace, application) => Object::Application(ApplicationNeed {
                namespace: namespace.into(),
                application: application.into(),
                levels: Vec::new(),
            }),
        };
        Need { object: Some(object) }
    }

    fn mk_cause(depth: i32, text: &str, state: CauseState, level: Level, message: &str) -> Cause {
        let since = mk_now() - jiff::SignedDuration::from_hours(3);
        Cause {
            depth,
            need: Some(mk_need(text)),
            stated_by: Some(StatusRef { unit: "web/0".into(), ..StatusRef::default() }),
            state: state.into(),
            level: level.into(),
            message: message.into(),
            since_time: Some(time::to_wire(since)),
            ..Cause::default()
        }
    }

    fn mk_why(causes: Vec<Cause>) -> ExplainApplicationResponse {
        let application =
            Application { namespace: "prod".into(), name: "web".into(), ..Application::default() };
        ExplainApplicationResponse {
            application: Some(application),
            causes,
            ..ExplainApplicationResponse::default()
        }
    }

    fn shown(causes: Vec<Cause>) -> String {
        render(&mk_why(causes), mk_now(), Screen::PLAIN)
    }

    /// `web` needs `postgresql`, which asks for something, and `data`, which is in a deadlock.
    fn mk_two_causes() -> Vec<Cause> {
        use CauseState::{Deadlock, Person};
        let waiting =
            |depth, name, message| mk_cause(depth, name, Deadlock, Level::Waiting, message);
        let freed = |cause| Cause { frees_count: 2, ..cause };
        vec![
            Cause {
                action: "juju integrate postgresql s3-integrator".into(),
                frees_count: 9,
                ..mk_cause(1, "postgresql", Person, Level::Blocked, "no backup target")
            },
            freed(waiting(1, "data", "Waiting for every unit in main to start")),
            freed(waiting(2, "main", "Waiting for data node...")),
            Cause { repeated_above: true, ..waiting(3, "data", "") },
        ]
    }

    #[test]
    fn a_block_for_each_need_down_to_its_first_causes() {
        let expected = "  because  postgresql is blocked (3h): no backup target
           -> action: juju integrate postgresql s3-integrator  \
           (frees 9; not web alone, which needs data too)
  because  data is waiting: Waiting for every unit in main to start
             main is waiting: Waiting for data node...
               data (above): deadlock since 11:02:04Z  \
               (frees 2; not web alone, which needs postgresql too)
";
        assert_eq!(shown(mk_two_causes()), expected);
    }

    #[test]
    fn each_state_has_its_words() {
        use CauseState::{Busy, Failed, Met, NotKnown, NotReadable, Outside, Person, Silent};
        use Level::{Active, Blocked, Error, Maintenance, Terminated, Unknown, Unspecified};
        for (state, level, name, message, expected) in [
            (Person, Blocked, "db", "full", "db is blocked (3h): full  (frees web)"),
            (Person, Terminated, "db", "", "db is terminated (3h)  (frees web)"),
            (Failed, Error, "db", "down", "db is error (3h): down  (frees web)"),
            (Silent, Active, "db", "ok", "db is active, but has silent units: ok  (frees web)"),
            (NotKnown, Unspecified, "dbb", "", "dbb is not known: misspelt?  (frees web)"),
            (NotKnown, Unknown, "db", "", "db is unknown (3h)  (frees web)"),
            (
                Outside,
                Unspecified,
                "quota cpu",
                "",
                "quota cpu (3h): outside of Bellwether  (frees web)",
            ),
            (NotReadable, Unspecified, "infra/dns", "", "infra/dns: you may not read it"),
            (Busy, Maintenance, "db", "runs", "db is maintenance (3h): runs"),
            (
                Met,
                Active,
                "data",
                "",
                "data is active since 11:02:04Z; web/0 has not reported otherwise since",
            ),
        ] {
            let cause = mk_cause(1, name, state, level, message);
            let text = shown(vec![Cause { frees_this: true, frees_count: 1, ..cause }]);
            assert_eq!(text, format!("  because  {expected}\n"), "{state:?}");
        }
    }

    #[test]
    fn a_cause_says_exactly_what_it_frees() {
        let with = |count, this, others: &[&str]| {
            let cause = mk_cause(1, "db", CauseState::Failed, Level::Error, "");
            let mut causes = vec![Cause { frees_count: count, frees_this: this, ..cause }];
            let other = |name: &&str| mk_cause(1, name, CauseState::Busy, Level::Waiting, "");
            causes.extend(others.iter().map(other));
            let text = shown(causes);
            text.lines()
                .next()
                .and_then(|line| line.split_once("  ("))
                .map_or_else(String::new, |(_, note)| note.trim_end_matches(')').to_string())
        };
        assert_eq!(with(4, true, &[]), "frees 4, web among them");
        assert_eq!(with(0, true, &[]), "frees web");
        assert_eq!(with(3, false, &["a"]), "frees 3; not web alone, which needs a too");
        assert_eq!(with(0, false, &["a", "b", "c"]), "not web alone, which needs a and 2 more too");
        assert_eq!(with(0, false, &[]), "not web alone");
    }

    /// Two applications that ask for the same are one thing to do, so none is named beside it.
    #[test]
    fn one_thing_to_do_is_not_named_beside_itself() {
        let asks = |name: &str, action: &str| Cause {
            action: action.into(),
            frees_count: 2,
            ..mk_cause(1, name, CauseState::Person, Level::Blocked, "")
        };
        let text = shown(vec![asks("a", "approve"), asks("b", "approve"), asks("c", "sign")]);
        let beside: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once("which needs "))
            .map(|(_, it)| it)
            .collect();
        assert_eq!(beside, ["c too)", "c too)", "a too)"], "{text}");
    }

    #[test]
    fn other_levels_than_active_are_named() {
        let mut cause = mk_cause(1, "infra/dns", CauseState::Busy, Level::Active, "serves");
        if let Some(Object::Application(needed)) =
            cause.need.as_mut().and_then(|n| n.object.as_mut())
        {
            needed.levels = vec![Level::Waiting.into(), Level::Terminated.into()];
        }
        let expected =
            "  because  infra/dns is active (3h), needed at waiting or terminated: serves\n";
        assert_eq!(shown(vec![cause]), expected);
    }

    #[test]
    fn causes_without_a_line_are_counted() {
        let mut why = mk_why(mk_two_causes());
        why.causes_rest_count = 5;
        if let Some(application) = &mut why.application {
            application.needs_rest_count = 3;
        }
        let text = render(&why, mk_now(), Screen::PLAIN);
        let end = "           and 5 more\n           and 3 more needs, which are not followed\n";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(render(&mk_why(Vec::new()), mk_now(), Screen::PLAIN), "");
    }

    #[test]
    fn a_narrow_terminal_breaks_texts_and_no_action() {
        let screen = Screen { width: Some(60), color: false };
        let text = render(&mk_why(mk_two_causes()), mk_now(), screen);
        let expected = "  because  postgresql is blocked (3h): no backup target
           -> action: juju integrate postgresql s3-integrator  \
           (frees 9; not web alone, which needs data too)
  because  data is waiting: Waiting for every unit in main
           to start
             main is waiting: Waiting for data node...
               data (above): deadlock since 11:02:04Z
               (frees 2; not web alone, which needs
               postgresql too)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn texts_of_others_move_no_cursor() {
        let mut cause = mk_cause(1, "db", CauseState::Person, Level::Blocked, "a\u{1b}[2J\nb");
        cause.action = "rm\u{9b}x\ny".into();
        let text = shown(vec![cause]);
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
        assert_eq!(text.lines().count(), 2, "{text:?}");
    }
}

//! Explains the level of an application: the winner, the rule, what it beat, what to do.

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use crate::cli::render::paint::Paint;
use crate::cli::render::status::{freshness_word, part_of, quorum_words};
use crate::cli::render::text::{with_notes, wrap};
use crate::cli::render::{
    Screen, causes, counted, faults, log, mark, one_line, origin, text, time,
};
use crate::cli::{level, span};
use crate::proto::v1::{Contribution, ExplainApplicationResponse, QuorumTurnout, StatusEvent};
use crate::service::severity;
use crate::service::severity::Silence;
use crate::service::start::may_be_earlier;

/// Columns before the text of a line: `  chosen   `.
const LABEL: usize = 11;

/// A message with fewer columns than this starts on a line of its own.
const MESSAGE_MIN: usize = 24;

/// Formats the explanation without cutting anything. `events` are the last ones, the newest first,
/// or why they are not known. `hint` makes a command line of a command.
pub fn render(
    why: &ExplainApplicationResponse,
    events: &Result<Vec<StatusEvent>, String>,
    now: Timestamp,
    screen: Screen,
    hint: &dyn Fn(&str) -> String,
) -> String {
    let mut text = title(why, now, screen);
    let columns = Columns::of(why, screen);
    match &why.winner {
        Some(winner) => text.push_str(&columns.line("chosen", winner, now)),
        None => text.push_str(&labelled("chosen", "nothing: no status contributes", screen)),
    }
    if !why.rule.is_empty() {
        text.push_str(&labelled("", &format!("rule: {}", why.rule), screen));
    }
    let application = why.application.as_ref();
    if let Some(line) = application.and_then(|app| quorum(app.quorum.as_ref()?, &why.rule)) {
        text.push_str(&labelled("", &line, screen));
    }
    text.push_str(&causes::render(why, now, screen));
    for (label, beaten) in faults::beneath("beaten", &why.beaten) {
        text.push_str(&columns.line(label, beaten, now));
    }
    for (label, line) in mark::lines(&why.marks, now) {
        text.push_str(&labelled(label, &line, screen));
    }
    for (label, line) in notes(why, now).into_iter().chain(faults::lines(why, now, hint)) {
        text.push_str(&labelled(label, &line, screen));
    }
    for (label, line) in lately(why, events, now) {
        text.push_str(&labelled(label, &line, screen));
    }
    for (label, fact) in asked(why) {
        // Not broken into lines, so that it can be copied.
        text.push_str(&labelled(label, &fact, Screen::PLAIN));
    }
    text
}

/// Returns where the quorum stands, unless the rule says it.
fn quorum(turnout: &QuorumTurnout, rule: &str) -> Option<String> {
    (!rule.starts_with("quorum: ")).then(|| quorum_words(turnout))
}

/// Returns the facts beside the contributions: the number of further ones, the silent units, the
/// work under way.
fn notes(why: &ExplainApplicationResponse, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    let listed = i32::try_from(why.beaten.len()).unwrap_or(i32::MAX);
    if listed < why.beaten_count {
        let label = if listed == 0 { "beaten" } else { "" };
        let more = format!("and {} more; --limit N lists them", why.beaten_count - listed);
        notes.push((label, more));
    }
    if 0 < why.silent_count {
        let silent = counted(why.silent_count, "status", "statuses");
        notes.push(("silent", format!("{silent} of lost or uncertain units, not counted")));
    }
    if why.observer_suspect {
        let held = "so many units vanished at once that the fault may be on the side of the \
                    server; none of them is judged for now";
        notes.push(("suspect", held.to_string()));
    }
    for operation in why.operations.iter().filter(|o| !o.next_step.is_empty()) {
        let next = super::operation::next(operation, now);
        notes.push(("next", format!("{}: {next}", operation.operation_id)));
    }
    notes
}

/// Returns the last events, the newest last.
fn lately(
    why: &ExplainApplicationResponse,
    events: &Result<Vec<StatusEvent>, String>,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let name = why.application.as_ref().map_or("", |application| &application.name);
    let lines = match events {
        Ok(events) => log::lines(name, events, now),
        Err(cause) => vec![format!("not known: {}", one_line(cause))],
    };
    faults::beneath("lately", lines).collect()
}

/// Returns the action of the winner, then those of the others, each with its unit.
fn asked(why: &ExplainApplicationResponse) -> Vec<(&'static str, String)> {
    let winner = why.winner.clone().unwrap_or_default();
    let evidence = origin::line(&winner);
    let given = |fact: String| Some(fact).filter(|fact| !fact.is_empty());
    let others = why.beaten.iter().filter(|other| !other.action.is_empty());
    let others = others.map(|other| format!("{}  (for {})", other.action, who(other)));
    let actions = given(winner.action).into_iter().chain(others);
    evidence.into_iter().chain(faults::beneath("action", actions)).collect()
}

/// Formats `api is blocked since 12:41:02Z (4m)`.
fn title(why: &ExplainApplicationResponse, now: Timestamp, screen: Screen) -> String {
    let application = why.application.clone().unwrap_or_default();
    let silent = match severity::hides(&application) {
        true => format!(", but {}", Silence::of(&application).words()),
        false => String::new(),
    };
    let status = application.status.unwrap_or_default();
    let earlier = if may_be_earlier(&status, why.winner.as_ref()) { " or earlier" } else { "" };
    let level = level::word(status.level);
    let level = Paint::of_level(status.level).apply(level, screen.color);
    let since = time::from_wire(status.since_time.as_ref()).map_or(String::new(), |since| {
        let age = span::short(time::age(since, now));
        format!(" since {}{earlier} ({age})", time::clock(since, now))
    });
    let by = if status.leader_set { ", as its leader set it" } else { "" };
    let marks = mark::note(&status).map_or_else(String::new, |note| format!(" ({note})"));
    format!("{} is {level}{marks}{since}{by}{silent}\n", one_line(&application.name))
}

fn labelled(label: &str, text: &str, screen: Screen) -> String {
    text::labelled(label, LABEL, text, screen.width)
}

/// Column widths that all contributions share, so that their levels are aligned.
struct Columns {
    who: usize,
    level: usize,
    screen: Screen,
}

impl Columns {
    fn of(why: &ExplainApplicationResponse, screen: Screen) -> Columns {
        let all = || why.winner.iter().chain(&why.beaten);
        Columns {
            who: all().map(|c| who(c).width()).max().unwrap_or(0),
            level: all().map(|c| level::word(c.level).len()).max().unwrap_or(0),
            screen,
        }
    }

    fn line(&self, label: &str, contribution: &Contribution, now: Timestamp) -> String {
        let who = who(contribution);
        let word = level::word(contribution.level);
        let painted = Paint::of_level(contribution.level).apply(word, self.screen.color);
        let column = LABEL + self.who + 2 + self.level + 2;
        let head = format!(
            "  {label:<7}  {who}{}  {painted}{}",
            " ".repeat(self.who.saturating_sub(who.width())),
            " ".repeat(self.level - word.len()),
        );
        let message = message(contribution, now);
        let Some(width) = self.screen.width else {
            return format!("{}\n", format!("{head}  {message}").trim_end());
        };
        // If long names leave too few columns, the message starts on a line of its own.
        let fits = column + MESSAGE_MIN <= width;
        let indent = if fits { column } else { LABEL + 2 };
        let mut text = head;
        for (nth, line) in wrap(&message, width.saturating_sub(indent)).iter().enumerate() {
            if nth == 0 && fits {
                text.push_str(&format!("  {line}"));
            } else if !line.is_empty() {
                text = format!("{}\n{}{line}", text.trim_end(), " ".repeat(indent));
            }
        }
        format!("{}\n", text.trim_end())
    }
}

/// Names the status: `api/1 database`, `api/0* -`, `api (application)`.
fn who(contribution: &Contribution) -> String {
    let status = contribution.r#ref.clone().unwrap_or_default();
    let unit = if status.unit.is_empty() { "(application)" } else { &status.unit };
    let leader = if contribution.leader { "*" } else { "" };
    let part = part_of(&status);
    let part = if part.is_empty() { "-" } else { &part };
    one_line(&format!("{unit}{leader} {part}"))
}

/// Formats the message, then in parentheses its freshness, its end, the reason for damping, and why
/// it lost.
fn message(contribution: &Contribution, now: Timestamp) -> String {
    let freshness = Some(freshness_word(contribution.freshness)).filter(|word| *word != "fresh");
    let stopping = contribution.while_stopping.then_some("said while stopping");
    let end = time::from_wire(contribution.end_time.as_ref());
    let end = end.map(|end| format!("until {}", time::clock(end, now))).unwrap_or_default();
    let reasons = [end.as_str(), contribution.held.as_str(), contribution.beaten_by.as_str()];
    let mut notes: Vec<&str> = freshness.into_iter().chain(stopping).collect();
    notes.extend(reasons.into_iter().filter(|reason| !reason.is_empty()));
    with_notes(&one_line(&contribution.message), &notes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::need::Object;
    use crate::proto::v1::{
        AggregatedStatus, Application, ApplicationNeed, Cause, CauseState, EventKind, Freshness,
        Level, Need, StatusRef,
    };

    fn mk_time(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    /// Formats without events.
    fn render_now(why: &ExplainApplicationResponse, now: Timestamp, screen: Screen) -> String {
        render(why, &Ok(Vec::new()), now, screen, &|command| command.to_string())
    }

    fn mk_contribution(unit: &str, component: &str, level: Level, message: &str) -> Contribution {
        Contribution {
            r#ref: Some(StatusRef {
                unit: unit.into(),
                component: component.into(),
                ..StatusRef::default()
            }),
            level: level.into(),
            message: message.into(),
            freshness: Freshness::Fresh.into(),
            ..Contribution::default()
        }
    }

    fn mk_why() -> ExplainApplicationResponse {
        let since = mk_time("2026-02-24T12:41:02Z");
        ExplainApplicationResponse {
            application: Some(Application {
                name: "api".into(),
                status: Some(AggregatedStatus {
                    level: Level::Blocked.into(),
                    since_time: Some(time::to_wire(since)),
                    ..AggregatedStatus::default()
                }),
                ..Application::default()
            }),
            winner: Some(Contribution {
                action: "juju integrate api postgresql".into(),
                check: "the database relation has a URL".into(),
                ..mk_contribution("api/1", "database", Level::Blocked, "add a database relation")
            }),
            rule: "highest level; ties: priority, leader, unit number".into(),
            beaten: vec![
                Contribution {
                    freshness: Freshness::Stale.into(),
                    beaten_by: "lower level".into(),
                    held: "latched".into(),
                    ..mk_contribution("api/2", "", Level::Unknown, "no report for 6m")
                },
                Contribution { leader: true, ..mk_contribution("api/0", "", Level::Active, "") },
            ],
            fault_count: 0,
            faults: vec![],
            holds: vec![],
            beaten_count: 5,
            silent_count: 1,
            observer_suspect: false,
            holds_rest_count: 0,
            operations: vec![],
            causes: vec![],
            causes_rest_count: 0,
            marks: Vec::new(),
        }
    }

    #[test]
    fn reads_from_top_to_bottom() {
        let expected = "\
api is blocked since 12:41:02Z (4m)
  chosen   api/1 database  blocked  add a database relation
           rule: highest level; ties: priority, leader, unit number
  beaten   api/2 -         unknown  no report for 6m (stale; latched; lower level)
           api/0* -        active
           and 3 more; --limit N lists them
  silent   1 status of lost or uncertain units, not counted
  check    the database relation has a URL
  action   juju integrate api postgresql
";
        let now = mk_time("2026-02-24T12:45:09Z");
        assert_eq!(render_now(&mk_why(), now, Screen::PLAIN), expected);
    }

    #[test]
    fn the_last_events_come_before_the_action() {
        let now = mk_time("2026-02-24T12:45:09Z");
        let event = |time: &str, level: Level, message: &str| StatusEvent {
            time: Some(time::to_wire(mk_time(time))),
            from_level: Level::Active.into(),
            level: level.into(),
            freshness: Freshness::Fresh.into(),
            message: message.into(),
            kind: EventKind::Application.into(),
            ..StatusEvent::default()
        };
        let events = vec![
            event("2026-02-24T12:41:02Z", Level::Blocked, "add a \x1b[7mdatabase relation"),
            event("2026-02-24T12:30:00Z", Level::Active, ""),
        ];
        let shown = |events| render(&mk_why(), &events, now, Screen::PLAIN, &|_| String::new());
        let text = shown(Ok(events));
        let expected = "\
  lately   12:30:00Z  api  active
           12:41:02Z  api  active -> blocked: add a  [7mdatabase relation
  check    the database";
        assert!(text.contains(expected), "{text}");
        let text = shown(Err("the server has no history".to_string()));
        assert!(text.contains("\n  lately   not known: the server has no history\n"), "{text}");
    }

    #[test]
    fn the_needs_follow_the_rule() {
        let needed = ApplicationNeed { application: "db".into(), ..ApplicationNeed::default() };
        let cause = Cause {
            depth: 1,
            need: Some(Need { object: Some(Object::Application(needed)) }),
            state: CauseState::Failed.into(),
            level: Level::Error.into(),
            frees_this: true,
            ..Cause::default()
        };
        let why = ExplainApplicationResponse { causes: vec![cause], ..mk_why() };
        let text = render_now(&why, Timestamp::default(), Screen::PLAIN);
        let expected = "unit number\n  because  db is error  (frees api)\n  beaten   api/2";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn the_turnout_of_a_quorum_follows_a_rule_that_is_another_one() {
        let mut why = mk_why();
        let turnout =
            QuorumTurnout { active_count: 3, known_count: 9, needed_count: 5, met: false };
        why.application.as_mut().expect("an application").quorum = Some(turnout);
        let render =
            |why: &ExplainApplicationResponse| render_now(why, Timestamp::default(), Screen::PLAIN);
        let line = "           quorum: 3 of 9 active, 5 needed !\n";
        assert!(render(&why).contains(line), "{}", render(&why));
        why.rule = "quorum: 3 of 9 units are active, 5 are needed".into();
        assert_eq!(render(&why).matches("quorum").count(), 1, "{}", render(&why));
    }

    #[test]
    fn an_imported_status_has_its_source_and_an_unknown_start() {
        let since = mk_time("2026-02-24T12:41:02Z");
        let mut why = mk_why();
        let winner = why.winner.as_mut().expect("a winner");
        winner.since_time = Some(time::to_wire(since));
        winner.since_unknown = true;
        winner.labels.insert("imported-from".into(), "kubernetes".into());
        let text = render_now(&why, since, Screen::PLAIN);
        assert!(text.starts_with("api is blocked since 12:41:02Z or earlier (0s)\n"), "{text}");
        let expected = "\n  from     kubernetes: the database relation has a URL\n  action   juju";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn last_words_and_ends_are_marked() {
        let mut why = mk_why();
        why.beaten[1].while_stopping = true;
        let end = mk_time("2026-02-24T13:00:00Z");
        why.beaten[1].end_time = Some(time::to_wire(end));
        for (now, at) in [(end, "13:00:00Z"), (Timestamp::default(), "2026-02-24 13:00:00Z")] {
            let text = render_now(&why, now, Screen::PLAIN);
            let expected = format!("api/0* -        active   (said while stopping; until {at})\n");
            assert!(text.contains(&expected), "{text}");
        }
    }

    #[test]
    fn a_narrow_terminal_cuts_nothing() {
        let screen = Screen { width: Some(60), color: true };
        let now = mk_time("2026-02-25T12:45:09Z");
        let mut why = mk_why();
        why.beaten[0].action = "restart it".into();
        let text = render_now(&why, now, screen);
        let expected = "\
api is \x1b[31mblocked\x1b[0m since 2026-02-24 12:41:02Z (24h)
  chosen   api/1 database  \x1b[31mblocked\x1b[0m  add a database relation
           rule: highest level; ties: priority, leader, unit
           number
  beaten   api/2 -         \x1b[33munknown\x1b[0m  no report for 6m (stale;
                                    latched; lower level)
           api/0* -        \x1b[32mactive\x1b[0m
           and 3 more; --limit N lists them
  silent   1 status of lost or uncertain units, not counted
  check    the database relation has a URL
  action   juju integrate api postgresql
           restart it  (for api/2 -)
";
        assert_eq!(text, expected);
        let narrow = Screen { width: Some(40), color: false };
        let text = render_now(&why, now, narrow);
        assert!(text.contains("blocked\n             add a database relation\n"), "{text}");
    }

    #[test]
    fn an_application_without_statuses_has_no_reason() {
        let why = ExplainApplicationResponse {
            application: Some(Application {
                name: "api".into(),
                status: Some(AggregatedStatus {
                    level: Level::Unknown.into(),
                    ..AggregatedStatus::default()
                }),
                ..Application::default()
            }),
            ..ExplainApplicationResponse::default()
        };
        let now = mk_time("2026-02-24T12:45:09Z");
        assert_eq!(
            render_now(&why, now, Screen::PLAIN),
            "api is unknown\n  chosen   nothing: no status contributes\n"
        );
    }
}

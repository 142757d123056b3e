//! Conversion of needs, in both directions.

use super::fields::Fields;
use super::value::{count, kind, level};
use crate::domain::level::Level;
use crate::domain::limits::{NAME_BYTES_MAX, NEEDS_MAX};
use crate::domain::name::AppName;
use crate::domain::need::{Need, Needs};
use crate::domain::stated::index::RecordKey;
use crate::domain::stated::{StatedBy, StatedNeeds};
use crate::proto::v1;
use crate::proto::v1::need::Object;
use crate::service::code::{Reason, quoted};
use crate::service::protobuf::timestamp;
use crate::watch::blockers::{self, Blocker, CauseLine, CauseState};

/// Reads the needs of a status or of an error.
pub(super) fn needs(fields: &mut Fields, given: &[v1::Need]) -> Needs {
    let count = given.len();
    if NEEDS_MAX < count {
        let text = format!("are {count}; at most {NEEDS_MAX}");
        let noted = fields.note("needs", Reason::InvalidValue, text);
        noted.with("count", count).with("max", NEEDS_MAX);
        return Needs::default();
    }
    let given = given.iter().enumerate();
    given.filter_map(|(n, need)| read(fields, n, need)).collect()
}

/// Returns the path of a field of a need. Converted to text only for a violation.
fn field(n: usize, of_need: &str) -> String {
    format!("needs[{n}].{of_need}")
}

fn read(fields: &mut Fields, n: usize, given: &v1::Need) -> Option<Need> {
    match &given.object {
        Some(Object::Application(needed)) => application(fields, n, needed),
        Some(Object::Outside(words)) => outside(fields, n, words),
        None => fields.missing(&field(n, "object"), "is required: application or outside"),
    }
}

fn application(fields: &mut Fields, n: usize, needed: &v1::ApplicationNeed) -> Option<Need> {
    let own = fields.own.clone();
    let namespace = match (needed.namespace.as_str(), &own) {
        ("", Some(own)) => own.namespace(),
        (given, _) => given,
    };
    let app = match AppName::new(namespace, &needed.application) {
        Ok(app) => app,
        Err((part, error)) => {
            let given = if part == "namespace" { namespace } else { &needed.application };
            let path = field(n, &format!("application.{part}"));
            return fields.name(&path, given, Err(error));
        }
    };
    if own.as_ref() == Some(&app) {
        let text = "is the application itself, which cannot need itself; name another one";
        return fields.wrong(&field(n, "application.application"), text, &app);
    }
    let levels = match needed.levels.as_slice() {
        [] => Vec::new(),
        given => {
            let path = field(n, "application.levels");
            given.iter().map(|level| fields.level(&path, *level)).collect()
        }
    };
    Some(Need::application(app, levels))
}

fn outside(fields: &mut Fields, n: usize, words: &str) -> Option<Need> {
    let field = &field(n, "outside");
    if words.is_empty() {
        return fields.missing(field, "is required: say what is needed, in words");
    }
    if words.chars().any(char::is_control) {
        let text = format!("is {}; leave control characters out", quoted(words));
        return fields.wrong(field, text, words.escape_debug());
    }
    Some(Need::Outside(fields.text(field, words, NAME_BYTES_MAX)))
}

/// Converts the needs of a status or of an error.
pub(super) fn given(needs: &Needs) -> Vec<v1::Need> {
    needs.iter().map(need).collect()
}

/// Converts a need.
fn need(need: &Need) -> v1::Need {
    let object = match need {
        Need::Outside(words) => Object::Outside(words.to_string()),
        Need::Application(app, levels) => {
            let is_default = **levels == [Level::Active];
            let levels = levels.iter().filter(|_| !is_default);
            Object::Application(v1::ApplicationNeed {
                namespace: app.namespace().to_string(),
                application: app.application().to_string(),
                levels: levels.map(|l| level(*l) as i32).collect(),
            })
        }
    };
    v1::Need { object: Some(object) }
}

/// Converts the contribution that states a need.
fn stated_by(by: &StatedBy) -> v1::StatusRef {
    v1::StatusRef {
        unit: by.unit.to_string(),
        component: by.component.as_str().to_string(),
        key: by.key.as_str().to_string(),
        kind: by.kind.map_or(v1::StatusKind::Unspecified, kind) as i32,
        target: by.target.to_string(),
    }
}

/// Converts the needs that an application states.
pub(super) fn stated(needs: &StatedNeeds) -> Vec<v1::StatedNeed> {
    let stated = needs.needs.iter().map(|stated| v1::StatedNeed {
        need: Some(need(&stated.need)),
        stated_by: Some(stated_by(&stated.stated_by)),
        since_time: Some(timestamp(stated.since)),
    });
    stated.collect()
}

/// Converts the record whose needs are met.
pub(super) fn needs_met(source: &RecordKey) -> v1::NeedsMet {
    match source {
        RecordKey::Status(of) => v1::NeedsMet {
            component: of.component.as_str().to_string(),
            key: of.key.as_str().to_string(),
            kind: kind(of.kind) as i32,
            target: String::new(),
        },
        RecordKey::Fault(of) => v1::NeedsMet {
            component: of.component.as_str().to_string(),
            key: String::new(),
            kind: v1::StatusKind::Unspecified as i32,
            target: of.target.to_string(),
        },
    }
}

/// Converts a line of the chain of an application; it frees so many applications.
pub fn cause(line: &CauseLine, frees: u32) -> v1::Cause {
    let summary = line.object.head().map(|head| &head.summary);
    let text = |text: Option<&Box<str>>| text.map_or_else(String::new, ToString::to_string);
    v1::Cause {
        depth: count(line.depth),
        need: Some(need(&line.need)),
        stated_by: Some(stated_by(&line.stated_by)),
        state: state(line.state) as i32,
        level: summary.map_or(v1::Level::Unspecified, |s| level(s.level)) as i32,
        message: text(summary.map(|s| &s.message)),
        action: text(summary.map(|s| &s.action)),
        since_time: Some(timestamp(line.since)),
        repeated_above: line.is_repeated,
        frees_count: count(frees),
        frees_this: line.frees_this,
    }
}

/// Converts a first cause.
pub fn blocker(found: &Blocker) -> v1::Blocker {
    let names = |apps: &[AppName]| apps.iter().map(ToString::to_string).collect();
    v1::Blocker {
        state: state(found.state) as i32,
        objects: found.objects.iter().map(object).collect(),
        objects_rest_count: count(found.objects_rest),
        action: found.action.to_string(),
        message: found.message.to_string(),
        level: found.level.map_or(v1::Level::Unspecified, level) as i32,
        since_time: Some(timestamp(found.since)),
        frees_count: count(found.frees),
        blocks_count: count(found.blocks),
        frees: names(&found.freed),
        named_by: names(&found.named_by),
    }
}

/// Converts an object, in the form of a need of it.
fn object(given: &blockers::Object) -> v1::Need {
    use blockers::Object::{Known, Outside, Unknown, Unreadable};
    let of_app = |app: &AppName| Need::application(app.clone(), Vec::new());
    need(&match given {
        Outside(words) => Need::Outside(words.clone()),
        Known(entry, _) => of_app(&entry.app),
        Unknown(app) | Unreadable(app) => of_app(app),
    })
}

fn state(state: CauseState) -> v1::CauseState {
    match state {
        CauseState::Person => v1::CauseState::Person,
        CauseState::Deadlock => v1::CauseState::Deadlock,
        CauseState::Failed => v1::CauseState::Failed,
        CauseState::Silent => v1::CauseState::Silent,
        CauseState::NotKnown => v1::CauseState::NotKnown,
        CauseState::Outside => v1::CauseState::Outside,
        CauseState::Waiting => v1::CauseState::Waiting,
        CauseState::Busy => v1::CauseState::Busy,
        CauseState::Met => v1::CauseState::Met,
        CauseState::NotReadable => v1::CauseState::NotReadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(namespace: &str, application: &str, levels: &[i32]) -> v1::Need {
        let (namespace, application) = (namespace.to_string(), application.to_string());
        let needed = v1::ApplicationNeed { namespace, application, levels: levels.to_vec() };
        v1::Need { object: Some(Object::Application(needed)) }
    }

    fn words(text: &str) -> v1::Need {
        v1::Need { object: Some(Object::Outside(text.to_string())) }
    }

    #[test]
    fn needs_are_checked_field_by_field() {
        let own = AppName::new("prod", "web").unwrap();
        let cases: [(Vec<v1::Need>, &str); 13] = [
            (vec![], ""),
            (vec![wire("", "db", &[])], ""),
            (vec![wire("", "db", &[2]), wire("infra", "web", &[3, 4]), words("quota cpu")], ""),
            (vec![wire("", "db", &[3]); 8], ""),
            (vec![wire("", "db", &[3]); 9], "needs are 9; at most 8"),
            (vec![v1::Need { object: None }], "needs[0].object is required"),
            (vec![wire("", "", &[])], "needs[0].application.application is required"),
            (vec![wire("", "a b", &[])], "needs[0].application.application "),
            (vec![wire("-", "db", &[])], "needs[0].application.namespace "),
            (vec![wire("prod", "web", &[])], "cannot need itself"),
            (vec![wire("", "db", &[99])], "needs[0].application.levels is 99"),
            (vec![words("a"), words("")], "needs[1].outside is required"),
            (vec![words("a\nb")], "leave control characters out"),
        ];
        for (given, expected) in cases {
            let mut fields = Fields::about(&own);
            needs(&mut fields, &given);
            let refused = fields.finish(Some(())).err();
            let told = refused
                .map_or_else(String::new, |error| tonic::Status::from(error).message().to_string());
            assert!(told.contains(expected), "{told}");
            assert_eq!(told.is_empty(), expected.is_empty(), "{told}");
        }
    }

    #[test]
    fn needs_come_back_as_they_were_given_and_equal_ones_once() {
        let own = AppName::new("prod", "web").unwrap();
        let mut fields = Fields::about(&own);
        let given_twice = [wire("", "db", &[]), wire("prod", "db", &[3]), wire("", "db", &[4, 3])];
        let read = needs(&mut fields, &given_twice);
        assert_eq!(given(&read), [wire("prod", "db", &[]), wire("prod", "db", &[3, 4])]);
    }
}

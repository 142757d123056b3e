//! Lines about errors, and how open ones are printed.

use std::fmt::Write as _;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::classify::finding::{ErrorOrigin, Evidence, Hints};
use bellwether::domain::classify::own::GonePair;
use bellwether::domain::classify::{Rules, classify};
use bellwether::domain::command::Command;
use bellwether::domain::fault::{NewError, Resolution};

use super::line::Line;

impl Line {
    /// `error web/0 db grpc/UNAVAILABLE "refused" target=pg origin=transport retry_after=5s`,
    /// `resolve web/0 db target=pg`, `retry web/0 db why="..."`, `skip web/0 db`.
    pub fn about_error(&self) -> Option<Command> {
        let component = || self.part_at(2);
        let resolution = match self.word(0) {
            "error" => {
                return Some(Command::ReportError {
                    reporter: self.reporter(),
                    component: component(),
                    target: self.option("target").unwrap_or_default().into(),
                    error: Box::new(self.error()),
                });
            }
            "resolve" => {
                return Some(Command::ResolveError {
                    reporter: self.reporter(),
                    component: self.option("all").is_none().then(component),
                    target: self.option("target").map(Into::into),
                    generation: self.option("generation").unwrap_or_default().into(),
                });
            }
            "retry" => Resolution::Retry,
            "skip" => Resolution::Skip,
            _ => return None,
        };
        Some(Command::ResolveHold {
            unit: self.unit(1),
            component: component(),
            resolution,
            why: self.option("why").unwrap_or_default().into(),
        })
    }

    fn error(&self) -> NewError {
        let (system, code) = self.word(3).split_once('/').unwrap();
        let text = |name: &str| self.option(name).unwrap_or_default().into();
        let hint = |name: &str| self.option(name).map(|word| word == "yes");
        let evidence = Evidence {
            system: system.into(),
            code: code.into(),
            origin: match self.option("origin").unwrap_or("peer") {
                "peer" => ErrorOrigin::Peer,
                "transport" => ErrorOrigin::Transport,
                "local" => ErrorOrigin::Local,
                other => panic!("no origin {other}"),
            },
            outcome: None,
            domain: text("domain"),
            reason: text("reason"),
            message: self.word(4).into(),
            retry_after: self.duration("retry_after"),
            hints: Hints {
                user_input: hint("user_input"),
                own_request: hint("own_request"),
                quota: hint("quota"),
                machine_resolvable: hint("machine_resolvable"),
                deadline_passed: hint("deadline_passed"),
                own_shutdown: hint("own_shutdown"),
            },
        };
        let pair = GonePair { domain: "vm.example".into(), reason: "NO_SUCH_VM".into() };
        let rules = Rules { own: Vec::new(), gone: std::iter::once(pair).collect() };
        NewError {
            needs: Default::default(),
            shortest_wait: self.duration("shortest"),
            finding: classify(&rules, &evidence),
            evidence,
            internal_detail: Default::default(),
            action: text("action"),
            operation_id: text("operation"),
            attempt: 0,
            generation: text("generation"),
        }
    }
}

/// Each open error in a line, and what workers were asked to try.
pub fn faults(state: &AppState) -> String {
    let mut out = String::new();
    for (key, fault) in state.faults().iter() {
        write!(out, "{} {} {}: ", key.unit, key.component.as_str(), key.target).unwrap();
        let (class, count) = (fault.class().word(), fault.count);
        write!(out, "{class} {count}x by {}", fault.error.finding.rule).unwrap();
        if 0 < fault.attempts {
            write!(out, ", {} attempts, {} left", fault.attempts, fault.attempts_left).unwrap();
        }
        if let Some(wait) = fault.retry_after() {
            write!(out, ", {:?} in {}", fault.error.finding.action, seconds(wait)).unwrap();
        }
        if fault.held_since.is_some() {
            out.push_str(", holds the component");
        }
        match fault.level() {
            None => out.push_str(" | shows nothing\n"),
            Some(level) => writeln!(out, " | shows {} ({})", level.word(), fault.reason()).unwrap(),
        }
    }
    for (name, unit) in state.units_after(None) {
        for (topic, callback) in unit.due_callbacks() {
            let (component, at) = (topic.component.as_str(), callback.at.millis() / 1000);
            match callback.request.as_ref().zip(topic.key.as_ref()) {
                None => writeln!(out, "{name} is asked at t={at}s: {component} {}", topic.target),
                Some((request, key)) => {
                    writeln!(
                        out,
                        "{name} is called at t={at}s: {} {}",
                        key.as_str(),
                        request.reason
                    )
                }
            }
            .unwrap();
        }
    }
    match out.as_str() {
        "" => "nothing is open".to_string(),
        _ => out,
    }
}

/// To the tenth.
fn seconds(span: Duration) -> String {
    format!("{:.1}s", span.as_secs_f64())
}

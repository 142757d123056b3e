//! The table from the end of a plugin to a status or an error.

use crate::cli::command::run::checks::definition::PluginCheck;
use crate::cli::command::run::checks::output::Output;
use crate::cli::command::run::checks::perfdata::{Metric, Range};
use crate::cli::command::run::process::{Ended, Finished};
use crate::cli::span;
use crate::domain::limits::MESSAGE_BYTES_MAX;
use crate::proto::v1::{ErrorOrigin, ErrorReport, Level, StatusKind, StatusReport};

/// The table of errors of plugins.
const SYSTEM: &str = "plugin";
/// What operators see of the output of a plugin that failed.
const DETAIL_BYTES_MAX: usize = 16 * 1024;
/// Thresholds that a message names.
const NAMED_MAX: usize = 3;

/// What one run of a check says.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The state is known.
    Known(Box<StatusReport>),
    /// The plugin did not determine it.
    Failed(Box<ErrorReport>),
}

impl Outcome {
    /// Returns what the end of a plugin says.
    pub fn of(check: &PluginCheck, finished: &Finished) -> Outcome {
        let output = Output::read(match finished.out.trim_ascii().is_empty() {
            true => &finished.err,
            false => &finished.out,
        });
        match &finished.ended {
            Ended::Exit(code @ 0..=2) => Outcome::Known(Box::new(status(check, *code, output))),
            ended => Outcome::Failed(Box::new(error(check, ended, output, finished))),
        }
    }

    /// Returns the line for the person who ran the check.
    pub fn sentence(&self) -> String {
        match self {
            Outcome::Known(status) => {
                let level = crate::cli::level::word(status.level);
                format!("{level}, {}", status.message)
            }
            Outcome::Failed(error) => format!("no result, {}: {}", error.code, error.message),
        }
    }
}

fn status(check: &PluginCheck, code: i32, output: Output) -> StatusReport {
    let (level, reason) = match code {
        0 => (Level::Active, ""),
        1 => (check.warning_as, "Warning"),
        _ => (check.critical_as, "Critical"),
    };
    let mut message = output.message;
    if message.is_empty() {
        message = "the plugin wrote nothing".to_string();
    }
    let passed = passed(&output.metrics, code);
    StatusReport {
        component: check.component.clone(),
        kind: StatusKind::Pull.into(),
        level: level.into(),
        message: cut(&message, MESSAGE_BYTES_MAX.saturating_sub(passed.len())) + &passed,
        reason: reason.to_string(),
        check: cut(&check.shown, MESSAGE_BYTES_MAX),
        ttl: check.ttl.map(span::on_wire),
        ..StatusReport::default()
    }
}

/// Names the thresholds that were passed, for a result that is not OK.
fn passed(metrics: &[Metric], code: i32) -> String {
    let range = |metric: &Metric| -> Option<Range> {
        let range = if code == 1 { &metric.warning } else { &metric.critical };
        range.clone().filter(|range| metric.value.is_some_and(|value| range.is_passed_by(value)))
    };
    let found: Vec<(&Metric, Range)> = match code {
        0 => Vec::new(),
        _ => metrics.iter().filter_map(|metric| Some((metric, range(metric)?))).collect(),
    };
    let mut text = String::new();
    for (metric, range) in found.iter().take(NAMED_MAX) {
        let label = cut(&crate::cli::render::one_line(&metric.label), 64);
        let (value, range) = (cut(&metric.written, 32), cut(&range.written, 32));
        text.push_str(&format!("; {label}={value} passes {range}"));
    }
    match found.len().saturating_sub(NAMED_MAX) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn error(check: &PluginCheck, ended: &Ended, output: Output, finished: &Finished) -> ErrorReport {
    let program = check.command.first().map(String::as_str).unwrap_or_default();
    let install = "install the plugin, or correct its path";
    let (code, why, action) = match ended {
        Ended::Exit(3) => ("UNKNOWN".to_string(), output.message, ""),
        Ended::Exit(code) => {
            let why = format!("exit code {code} is reserved: {}", output.message);
            (format!("RESERVED_{code}"), why, "")
        }
        Ended::Signal(signal) => {
            let why = format!("signal {signal} ended the plugin: {}", output.message);
            (format!("SIGNAL_{signal}"), why, "")
        }
        Ended::TimedOut => {
            let limit = span::exact(check.timeout);
            ("TIMEOUT".to_string(), format!("the plugin took longer than {limit}"), "")
        }
        Ended::NotFound => {
            ("NOT_FOUND".to_string(), format!("{program}: there is no such plugin"), install)
        }
        Ended::NotExecutable => {
            let why = format!("{program}: the plugin cannot be executed");
            ("NOT_EXECUTABLE".to_string(), why, "make the plugin executable")
        }
        Ended::NotStarted(error) => {
            ("NOT_STARTED".to_string(), format!("the plugin did not start: {error}"), "")
        }
    };
    let origin = match ended {
        Ended::TimedOut => ErrorOrigin::Transport,
        _ => ErrorOrigin::Local,
    };
    let why = why.trim_end_matches([' ', ':']);
    ErrorReport {
        component: check.component.clone(),
        system: SYSTEM.to_string(),
        code,
        origin: origin.into(),
        message: cut(
            if why.is_empty() { "the plugin wrote nothing" } else { why },
            MESSAGE_BYTES_MAX,
        ),
        internal_detail: detail(finished),
        action: action.to_string(),
        ..ErrorReport::default()
    }
}

fn detail(finished: &Finished) -> String {
    let both = [&finished.out[..], &finished.err[..]].concat();
    cut(&String::from_utf8_lossy(&both), DETAIL_BYTES_MAX)
}

/// Cuts a text at a character.
fn cut(text: &str, bytes_max: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= bytes_max {
        return text.to_string();
    }
    let mut end = bytes_max.saturating_sub(MARK.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::command::run::checks::definition::Definition;
    use crate::cli::target::UnitTarget;

    fn check() -> PluginCheck {
        let definition = Definition {
            every: Some(Duration::from_secs(30)),
            timeout: Duration::from_secs(10),
            ttl: None,
            warning_as: Level::Waiting,
            critical_as: Level::Error,
            shows_command: false,
        };
        let unit = UnitTarget { application: "web".into(), unit: "web/0".into() };
        definition.check(unit, None, vec!["/p/check_load".into(), "-p".into()]).unwrap()
    }

    fn outcome(ended: Ended, out: &str) -> Outcome {
        Outcome::of(&check(), &Finished { ended, out: out.into(), err: b"a word".to_vec() })
    }

    fn known(code: i32, out: &str) -> StatusReport {
        match outcome(Ended::Exit(code), out) {
            Outcome::Known(status) => *status,
            Outcome::Failed(error) => panic!("{error:?}"),
        }
    }

    fn failed(ended: Ended, out: &str) -> ErrorReport {
        match outcome(ended, out) {
            Outcome::Failed(error) => *error,
            Outcome::Known(status) => panic!("{status:?}"),
        }
    }

    #[test]
    fn three_codes_are_statuses() {
        for (code, level, reason) in
            [(0, Level::Active, ""), (1, Level::Waiting, "Warning"), (2, Level::Error, "Critical")]
        {
            let status = known(code, "LOAD OK - load average: 1|load1=1");
            assert_eq!((status.level(), status.reason.as_str()), (level, reason));
            assert_eq!(status.message, "load average: 1");
            assert_eq!((status.component.as_str(), status.check.as_str()), ("load", "check_load"));
            assert_eq!(status.ttl.map(|ttl| ttl.seconds), Some(90));
            assert_eq!(status.kind(), StatusKind::Pull);
        }
        assert_eq!(known(1, " \n").message, "a word", "stderr, if stdout has nothing");
    }

    #[test]
    fn thresholds_that_were_passed_name_themselves() {
        let data = "load|load1=5.2;5;10 load5=4;5;10 load15=7;5;6";
        assert_eq!(known(0, data).message, "load");
        let warning = "load; load1=5.2 passes 5; load15=7 passes 5";
        assert_eq!(known(1, data).message, warning);
        assert_eq!(known(2, data).message, "load; load15=7 passes 6");
        let many: String = (0..9).map(|n| format!(" d{n}=1MB;@0:5")).collect();
        let message = known(1, &format!("disks|{many}")).message;
        assert!(message.ends_with("; d2=1MB passes @0:5 and 6 more"), "{message}");
    }

    #[test]
    fn any_other_end_is_an_error_of_the_plugin() {
        for (ended, code, origin, message) in [
            (Ended::Exit(3), "UNKNOWN", ErrorOrigin::Local, "no data"),
            (Ended::Exit(4), "RESERVED_4", ErrorOrigin::Local, "exit code 4 is reserved: no data"),
            (Ended::Exit(255), "RESERVED_255", ErrorOrigin::Local, "reserved"),
            (Ended::Signal(11), "SIGNAL_11", ErrorOrigin::Local, "signal 11 ended the plugin"),
            (Ended::TimedOut, "TIMEOUT", ErrorOrigin::Transport, "took longer than 10s"),
            (Ended::NotFound, "NOT_FOUND", ErrorOrigin::Local, "/p/check_load"),
            (Ended::NotExecutable, "NOT_EXECUTABLE", ErrorOrigin::Local, "cannot be executed"),
            (Ended::NotStarted("x".into()), "NOT_STARTED", ErrorOrigin::Local, "start: x"),
        ] {
            let error = failed(ended, "UNKNOWN - no data");
            assert_eq!((error.system.as_str(), error.code.as_str()), (SYSTEM, code));
            assert_eq!(error.origin(), origin, "{code}");
            assert!(error.message.contains(message), "{}", error.message);
            assert_eq!(error.internal_detail, "UNKNOWN - no dataa word");
        }
        assert!(failed(Ended::NotFound, "").action.contains("install"));
        assert!(failed(Ended::NotExecutable, "").action.contains("executable"));
    }

    #[test]
    fn long_output_is_cut_at_a_character() {
        let long = "é".repeat(5_000);
        let message = known(2, &format!("{long}|a=1;;0")).message;
        assert!(message.len() <= MESSAGE_BYTES_MAX, "{}", message.len());
        assert!(message.ends_with("…; a=1 passes 0"), "{message}");
        let error = failed(Ended::Exit(3), &"x".repeat(100_000));
        assert!(error.internal_detail.len() <= DETAIL_BYTES_MAX);
        assert!(error.message.len() <= MESSAGE_BYTES_MAX);
    }
}

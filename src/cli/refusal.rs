//! Refusals of the server in sentences of the command line: these name commands, where the
//! sentences of the server name calls of the API.

use bellwether_client::{Error, Refusal};

use crate::cli::context::command_in;
use crate::cli::render::one_line;
use crate::cli::target::shell_word;

/// Returns the error as a sentence for a person at a terminal.
pub fn sentence(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Error>() {
        Some(error) => sentence_of(error),
        None => one_line(&format!("{error:#}")),
    }
}

/// Does what [`sentence`] does for an error of a call.
pub fn sentence_of(error: &Error) -> String {
    let own = match error {
        Error::Refused(refusal) => of(refusal),
        Error::Unreachable { url, detail } => ended(url, detail),
        _ => None,
    };
    one_line(&own.unwrap_or_else(|| error.to_string()))
}

/// Returns the sentence for a program that accepted the connection and ended it without an answer,
/// as each port does that serves no calls.
fn ended(url: &str, detail: &str) -> Option<String> {
    let words = ["broken pipe", "connection reset", "connection closed"];
    let is_ended = words.iter().any(|word| detail.to_lowercase().contains(word));
    is_ended.then(|| {
        format!(
            "{url} ended the connection without an answer ({detail}); if this is the ops port, use \
             that of the calls, 50051 by default; if the server has TLS, use https://"
        )
    })
}

/// Returns the sentence that replaces that of the server; `None` to keep the server's.
fn of(refusal: &Refusal) -> Option<String> {
    if !refusal.violations.is_empty() {
        let typed: Vec<String> = std::env::args().collect();
        return Some(wrong_values(refusal, &typed));
    }
    let fact = |key: &str| refusal.metadata.get(key).map(String::as_str).unwrap_or_default();
    let (namespace, application) = (fact("namespace"), fact("application"));
    if application.is_empty() {
        return None;
    }
    let see = |command: &str| command_in(namespace, command);
    let word = shell_word(application);
    let text = match refusal.reason.as_str() {
        "APPLICATION_NOT_FOUND" => format!(
            "there is no application {application} in namespace {namespace}; `{}` lists those that \
             exist, `bellwether status -A` those of all namespaces",
            see("status"),
        ),
        "UNIT_NOT_FOUND" => format!(
            "{application} in namespace {namespace} has no unit {}; `{}` lists its units",
            fact("unit"),
            see(&format!("status {word}")),
        ),
        "OPERATION_NOT_FOUND" => format!(
            "{application} in namespace {namespace} has no such operation; `{}` lists its \
             operations",
            see(&format!("ops list {word}")),
        ),
        _ => return None,
    };
    Some(format!("{text} [{}]", refusal.reason))
}

/// Names each wrong value by the flag that gave it; one without a flag by what it is.
fn wrong_values(refusal: &Refusal, typed: &[String]) -> String {
    let violations = &refusal.violations;
    // One typed word, `web/0`, gives both.
    let has_unit = violations.iter().any(|(field, _)| last_part(field) == "unit");
    let is_typed = |(field, _): &&(String, String)| {
        !has_unit || last_part(field) != "application" || flag_of(field, typed).is_some()
    };
    let named = |(field, description): &(String, String)| {
        let flag = flag_of(field, typed).unwrap_or_else(|| plain(field));
        format!("{flag} {description}")
    };
    let all: Vec<String> = violations.iter().filter(is_typed).map(named).collect();
    format!("{} [{}]", all.join("; "), refusal.reason)
}

/// Returns the name of a field without its message and its place in a list.
fn last_part(field: &str) -> &str {
    let last = field.rsplit('.').next().unwrap_or(field);
    last.split('[').next().unwrap_or(last)
}

/// Returns the words for a field that no flag gives. A set that a file gives has its own paths.
fn plain(field: &str) -> String {
    match field.starts_with("statuses[") {
        true => field.to_string(),
        false => last_part(field).replace('_', " "),
    }
}

/// Returns the flag among the typed words whose value is this field of the API.
fn flag_of(field: &str, typed: &[String]) -> Option<String> {
    let parts = field.rsplit('.').map(|part| part.split('[').next().unwrap_or(part));
    let names: Vec<String> = parts.map(|part| part.replace('_', "-")).collect();
    let is_typed = |flag: &String| {
        typed.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")))
    };
    names.iter().find_map(|name| {
        let others = OTHER_FLAGS.iter().filter(|(known, _)| known == name);
        let others = others.map(|(_, flag)| (*flag).to_string());
        std::iter::once(format!("--{name}")).chain(others).find(is_typed)
    })
}

/// Fields whose flag has another name, or a short one.
const OTHER_FLAGS: [(&str, &str); 13] = [
    ("level", "-l"),
    ("message", "-m"),
    ("namespace", "-n"),
    ("labels", "--label"),
    ("lease-duration", "--lease"),
    ("target-version", "--to"),
    ("from-version", "--from"),
    ("damping", "--damp"),
    ("latches", "--latch"),
    ("lease-epoch", "--epoch"),
    ("page-size", "--limit"),
    ("end-after", "--ends-after"),
    ("outside", "--needs-outside"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;
    use tonic::Code;
    use tonic_types::{ErrorDetails, StatusExt};

    fn shown(reason: &str, message: &str) -> String {
        let facts = [("namespace", "prod"), ("application", "web"), ("unit", "web/7")];
        let mut details = ErrorDetails::new();
        let facts = facts.map(|(key, value)| (key.to_string(), value.to_string()));
        details.set_error_info(reason, "bellwether", facts);
        let status = tonic::Status::with_error_details(Code::NotFound, message, details);
        sentence(&Error::Refused(Box::new(Refusal::from(status))).into())
    }

    #[test]
    fn a_wrong_value_is_named_by_the_flag_that_gave_it() {
        let typed = |line: &str| line.split(' ').map(ToString::to_string).collect::<Vec<_>>();
        let flag = |field, line| flag_of(field, &typed(line));
        let line = "bellwether report web/0 --priority=9999999 -m x --label a=b --ends-after 0s";
        assert_eq!(flag("status.end_after", line).as_deref(), Some("--ends-after"));
        assert_eq!(flag("status.priority", line).as_deref(), Some("--priority"));
        assert_eq!(flag("status.message", line).as_deref(), Some("-m"));
        assert_eq!(flag("status.labels[a]", line).as_deref(), Some("--label"));
        assert_eq!(flag("status.reason", line), None);
        let line = "bellwether configure web --policy x --latch db=3 --lost-after 1ms";
        assert_eq!(flag("config.policy.order", line).as_deref(), Some("--policy"));
        assert_eq!(flag("config.latches[0].component", line).as_deref(), Some("--latch"));
        assert_eq!(flag("config.ttls.lost_after", line).as_deref(), Some("--lost-after"));
        let mut refusal = Refusal::from(tonic::Status::invalid_argument("no"));
        let wrong = [
            ("status.priority", "is 9999999"),
            ("application", "has ' ' at byte 1"),
            ("unit", "has ' ' at byte 1"),
            ("operation_id", "is empty"),
            ("statuses[1].key", "is long"),
        ];
        refusal.violations = wrong.map(|(field, text)| (field.into(), text.into())).to_vec();
        refusal.reason = "INVALID_VALUE".into();
        let text = wrong_values(&refusal, &typed("bellwether report web/0 --priority=9999999"));
        let expected = "--priority is 9999999; unit has ' ' at byte 1; operation id is empty; \
            statuses[1].key is long [INVALID_VALUE]";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_flags_of_fields_exist() {
        let mut root = Cli::command();
        root.build();
        let mut commands = vec![&root];
        let mut flags = std::collections::BTreeSet::new();
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands());
            for arg in command.get_arguments() {
                flags.extend(arg.get_long().map(|long| format!("--{long}")));
                flags.extend(arg.get_short().map(|short| format!("-{short}")));
            }
        }
        for (field, flag) in OTHER_FLAGS {
            assert!(flags.contains(flag), "{field}: no command has {flag}");
        }
    }

    #[test]
    fn a_port_that_serves_no_calls_is_named() {
        let unreachable = |detail: &str| {
            sentence_of(&Error::Unreachable { url: "h:9090".into(), detail: detail.into() })
        };
        let text = unreachable("stream closed because of a broken pipe");
        assert!(text.contains("if this is the ops port, use that of the calls, 50051"), "{text}");
        assert!(!unreachable("connection refused").contains("50051"));
    }

    #[test]
    fn commands_are_named_instead_of_calls() {
        assert_eq!(
            shown("UNIT_NOT_FOUND", "prod/web has no unit web/7; ListUnits lists its units"),
            "web in namespace prod has no unit web/7; `bellwether -n prod status web` lists its \
             units [UNIT_NOT_FOUND]"
        );
        let text = shown("APPLICATION_NOT_FOUND", "ListApplications lists all");
        assert!(text.contains("`bellwether -n prod status` lists those that exist"), "{text}");
        assert_eq!(shown("LEASE_HELD", "web/0\u{1b}[2J leads"), "web/0 [2J leads [LEASE_HELD]");
    }
}

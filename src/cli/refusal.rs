//! Refusals of the server in sentences of the command line: these name commands, where the
//! sentences of the server name calls of the API.

use bellwether_client::{Error, Refusal};

use crate::cli::context::command_in;
use crate::cli::render::one_line;
use crate::cli::target::shell_word;

/// Returns the error as a sentence for a person at a terminal.
pub fn sentence(error: &anyhow::Error) -> String {
    let own = match error.downcast_ref::<Error>() {
        Some(Error::Refused(refusal)) => of(refusal),
        _ => None,
    };
    one_line(&own.unwrap_or_else(|| format!("{error:#}")))
}

/// Returns the sentence that replaces that of the server; `None` to keep the server's.
fn of(refusal: &Refusal) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
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

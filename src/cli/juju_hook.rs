//! The Juju hook that runs this process, and the unit and application that a command is about.

use std::env;

use crate::cli::exit::UsageError;
use crate::cli::target::{Target, UnitTarget};

/// The Juju hook that runs this process.
pub struct JujuHook {
    /// The unit that the hook belongs to.
    pub unit: String,
    /// The model, if Juju names it.
    pub model: Option<String>,
}

/// Finds the hook by the variables that Juju sets for it.
pub fn juju_hook() -> Option<JujuHook> {
    let given = |name| env::var(name).ok().filter(|value| !value.is_empty());
    Some(JujuHook { unit: given("JUJU_UNIT_NAME")?, model: given("JUJU_MODEL_NAME") })
}

/// Returns the unit that was named, or that of the hook.
///
/// # Errors
/// If there is neither, or its application is unknown.
pub fn unit(
    given: Option<&str>,
    application: Option<&str>,
    hook: Option<JujuHook>,
) -> Result<UnitTarget, UsageError> {
    let unit = given.map(ToString::to_string).or(hook.map(|hook| hook.unit));
    let none = "no unit given outside of a Juju hook: write APP/UNIT";
    UnitTarget::parse(&unit.ok_or_else(|| UsageError(none.to_string()))?, application)
}

/// Returns the application that was named, also by a unit of it, or that of the hook.
///
/// # Errors
/// If there is neither.
pub fn application(given: Option<&str>) -> Result<String, UsageError> {
    let text = given.map(ToString::to_string).or_else(|| juju_hook().map(|hook| hook.unit));
    let none = "no application given outside of a Juju hook: write APP";
    Ok(Target::parse(&text.ok_or_else(|| UsageError(none.to_string()))?)?.application)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_hook() -> Option<JujuHook> {
        Some(JujuHook { unit: "web/3".into(), model: None })
    }

    #[test]
    fn the_named_unit_precedes_that_of_the_hook() {
        assert_eq!(unit(None, None, mk_hook()).unwrap().unit, "web/3");
        assert_eq!(unit(Some("db/1"), None, mk_hook()).unwrap().unit, "db/1");
        let pod = unit(Some("web-7f9c"), Some("web"), mk_hook()).unwrap();
        assert_eq!((pod.application.as_str(), pod.unit.as_str()), ("web", "web-7f9c"));
        let error = unit(None, None, None).unwrap_err();
        assert_eq!(error.to_string(), "no unit given outside of a Juju hook: write APP/UNIT");
        assert_eq!(application(Some("web/0")).unwrap(), "web");
    }
}

//! Parses `APP`, `APP/UNIT` and `--application`: the object of a command.

use crate::cli::exit::UsageError;

/// An application, or one unit of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The application.
    pub application: String,
    /// The unit by its name on the wire: `web/0`, not `0`.
    pub unit: Option<String>,
}

impl Target {
    /// Returns the name of an application, which no unit may stand for.
    ///
    /// # Errors
    /// If the text names a unit, or is empty.
    pub fn application_only(text: &str) -> Result<String, UsageError> {
        let Target { application, unit } = Target::parse(text)?;
        match unit {
            Some(unit) => Err(UsageError(format!("`{unit}` is a unit: name its application"))),
            None => Ok(application),
        }
    }

    /// Parses `web` or `web/0`. As in Juju's unit names, the part before the first `/` is the
    /// application and the whole is the unit.
    ///
    /// # Errors
    /// If one of the two is empty.
    pub fn parse(text: &str) -> Result<Target, UsageError> {
        let (application, rest) = text.split_once('/').unwrap_or((text, text));
        if application.is_empty() || rest.is_empty() {
            let text = format!("`{text}` is neither APP nor APP/UNIT: write web or web/0");
            return Err(UsageError(text));
        }
        let unit = text.contains('/').then(|| text.to_string());
        Ok(Target { application: application.to_string(), unit })
    }
}

/// A unit and its application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitTarget {
    /// The application.
    pub application: String,
    /// The unit by its name on the wire.
    pub unit: String,
}

impl UnitTarget {
    /// Parses `web/0`, or any name of a unit with its application given beside it (the name of a
    /// pod does not contain its application).
    ///
    /// # Errors
    /// If the application is unknown.
    pub fn parse(text: &str, application: Option<&str>) -> Result<UnitTarget, UsageError> {
        if let Some(application) = application {
            return Ok(UnitTarget { application: application.to_string(), unit: text.to_string() });
        }
        let target = Target::parse(text)?;
        match target.unit {
            Some(unit) => Ok(UnitTarget { application: target.application, unit }),
            None => Err(UsageError(format!(
                "`{text}` names no unit: write {text}/0, or --application APP {text} for a pod"
            ))),
        }
    }
}

/// Returns the words that name a unit on a command line: `web/0`, or `web-7f9c --application web`
/// for a pod.
fn unit_words(application: &str, unit: &str) -> String {
    match unit.strip_prefix(application).is_some_and(|rest| rest.starts_with('/')) {
        true => shell_word(unit),
        false => format!("{} --application {}", shell_word(unit), shell_word(application)),
    }
}

/// Returns the command that releases a component to try again.
pub fn retry_command(application: &str, unit: &str, component: &str) -> String {
    let component = match component {
        "" => String::new(),
        component => format!(" --component {}", shell_word(component)),
    };
    format!("resolve {}{component} --retry", unit_words(application, unit))
}

/// Quotes a text as one word of a shell, for a command that is to be copied.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/-:@%+=,".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_whole_name() {
        let target = Target::parse("web/0").expect("a unit");
        assert_eq!(target.application, "web");
        assert_eq!(target.unit.as_deref(), Some("web/0"));
        assert_eq!(Target::parse("web").expect("an application").unit, None);
    }

    #[test]
    fn a_pod_needs_its_application_named() {
        let pod = UnitTarget::parse("web-7f9c", Some("web")).expect("a pod");
        assert_eq!((pod.application.as_str(), pod.unit.as_str()), ("web", "web-7f9c"));
        assert_eq!(
            UnitTarget::parse("web-7f9c", None).expect_err("no application").to_string(),
            "`web-7f9c` names no unit: write web-7f9c/0, or --application APP web-7f9c for a pod"
        );
    }

    #[test]
    fn a_command_to_copy_names_a_unit_and_runs_nothing_else() {
        assert_eq!(unit_words("web", "web/0"), "web/0");
        assert_eq!(unit_words("web", "web-7f9c"), "web-7f9c --application web");
        assert_eq!(shell_word("a; rm 'x' y"), r"'a; rm '\''x'\'' y'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn neither_part_may_be_empty() {
        for text in ["", "/0", "web/"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}

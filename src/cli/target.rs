//! `APP`, `APP/UNIT` and `--application`: which thing a command speaks of.

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
    /// Reads `web` or `web/0`. As Juju names units, what stands before the first `/` is the
    /// application and the whole is the unit.
    ///
    /// # Errors
    /// If one of the two is empty.
    pub fn parse(text: &str) -> Result<Target, UsageError> {
        let (application, unit) = match text.split_once('/') {
            Some((application, rest)) => (application, Some(rest)),
            None => (text, None),
        };
        if application.is_empty() || unit == Some("") {
            let text = format!("`{text}` is neither APP nor APP/UNIT: write web or web/0");
            return Err(UsageError(text));
        }
        Ok(Target { application: application.to_string(), unit: unit.map(|_| text.to_string()) })
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
    /// Reads `web/0`, or any name of a unit with its application beside it (a pod has no
    /// application in its name).
    ///
    /// # Errors
    /// If the application cannot be told.
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
    fn neither_part_may_be_empty() {
        for text in ["", "/0", "web/"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}

//! A check: what runs, how often, and what becomes of its result.

use std::time::Duration;

use crate::cli::target::{UnitTarget, shell_word};
use crate::proto::v1::Level;

/// The shortest interval, with a ttl above that of the server.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// The longest: its ttl is the longest that the server takes.
const EVERY_MAX: Duration = Duration::from_secs(10 * 86_400);
const TTL_MAX: Duration = Duration::from_secs(30 * 86_400);
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// Intervals until a status is stale: two runs may fail.
const INTERVALS_PER_TTL: u32 = 3;
/// Characters of a name that the server takes, besides letters and digits.
const NAME_MARKS: &str = "._-/";

/// A check with all that is known of it.
#[derive(Debug, Clone)]
pub struct PluginCheck {
    /// The unit that it is about.
    pub unit: UnitTarget,
    /// The part of the unit.
    pub component: String,
    /// The interval; `None`: once.
    pub every: Option<Duration>,
    /// How long the plugin may run.
    pub timeout: Duration,
    /// How long a status is fresh.
    pub ttl: Option<Duration>,
    /// The level of exit code 1.
    pub warning_as: Level,
    /// The level of exit code 2.
    pub critical_as: Level,
    /// The plugin and its arguments.
    pub command: Vec<String>,
    /// What `why` shows of the command.
    pub shown: String,
}

/// The settings of a check that have defaults.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The interval; `None`: once.
    pub every: Option<Duration>,
    /// How long the plugin may run.
    pub timeout: Duration,
    /// How long a status is fresh; `None`: as long as three intervals.
    pub ttl: Option<Duration>,
    /// The level of exit code 1.
    pub warning_as: Level,
    /// The level of exit code 2.
    pub critical_as: Level,
    /// Whether the arguments are shown.
    pub shows_command: bool,
}

impl Definition {
    /// Returns a check with these settings.
    ///
    /// # Errors
    /// A sentence about the setting that is wrong.
    pub fn check(
        &self,
        unit: UnitTarget,
        component: Option<String>,
        command: Vec<String>,
    ) -> Result<PluginCheck, String> {
        let Some(program) = command.first().filter(|program| !program.is_empty()) else {
            return Err("the command is empty: write the plugin and its arguments".to_string());
        };
        self.examine()?;
        let plugin = base_name(program);
        let shown = match self.shows_command {
            true => Vec::from_iter(command.iter().map(|word| shell_word(word))).join(" "),
            false => plugin.to_string(),
        };
        Ok(PluginCheck {
            unit,
            component: component.unwrap_or_else(|| component_of(plugin)),
            every: self.every,
            timeout: self.timeout,
            ttl: self.ttl.or(self.every.map(|every| every * INTERVALS_PER_TTL)),
            warning_as: self.warning_as,
            critical_as: self.critical_as,
            command,
            shown,
        })
    }

    fn examine(&self) -> Result<(), String> {
        let within = |span: Duration, max: Duration| (EVERY_MIN..=max).contains(&span);
        if self.every.is_some_and(|every| !within(every, EVERY_MAX)) {
            return Err("the interval is not within 1s and 10d".to_string());
        }
        if !within(self.timeout, TIMEOUT_MAX) {
            return Err("the timeout is not within 1s and 1h".to_string());
        }
        if self.ttl.is_some_and(|ttl| !within(ttl, TTL_MAX)) {
            return Err("the ttl is not within 1s and 30d".to_string());
        }
        let warnings = [Level::Waiting, Level::Maintenance, Level::Active, Level::Blocked];
        if !warnings.contains(&self.warning_as) {
            let text = "a warning is shown as waiting, maintenance, active or blocked";
            return Err(text.to_string());
        }
        if ![Level::Error, Level::Blocked].contains(&self.critical_as) {
            return Err("a critical result is shown as error or blocked".to_string());
        }
        Ok(())
    }
}

/// Returns the name of a program without its folder.
fn base_name(program: &str) -> &str {
    program.rsplit('/').find(|part| !part.is_empty()).unwrap_or(program)
}

/// Returns the component that a plugin checks by its name: `http` for `check_http`.
fn component_of(plugin: &str) -> String {
    let name = plugin.strip_prefix("check_").filter(|rest| !rest.is_empty()).unwrap_or(plugin);
    let is_taken = |c: char| c.is_ascii_alphanumeric() || NAME_MARKS.contains(c);
    name.chars().map(|c| if is_taken(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONCE: Definition = Definition {
        every: None,
        timeout: Duration::from_secs(10),
        ttl: None,
        warning_as: Level::Waiting,
        critical_as: Level::Error,
        shows_command: false,
    };

    fn unit() -> UnitTarget {
        UnitTarget { application: "web".into(), unit: "web/0".into() }
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn the_component_is_the_name_of_the_plugin() {
        for (program, component) in [
            ("check_http", "http"),
            ("/usr/lib/nagios/plugins/check_disk", "disk"),
            ("check_", "check_"),
            ("./my plugin", "my-plugin"),
            ("/opt/check_x/", "x"),
        ] {
            assert_eq!(component_of(base_name(program)), component, "{program}");
        }
    }

    #[test]
    fn arguments_are_shown_only_on_request() {
        let line = words("/plugins/check_http -a user:secret");
        let check = ONCE.check(unit(), None, line.clone()).unwrap();
        assert_eq!((check.shown.as_str(), check.component.as_str()), ("check_http", "http"));
        let shows = Definition { shows_command: true, ..ONCE };
        let check = shows.check(unit(), Some("site".into()), line).unwrap();
        assert_eq!(check.shown, "/plugins/check_http -a user:secret");
        assert_eq!(check.component, "site");
    }

    #[test]
    fn a_status_is_fresh_for_three_intervals() {
        let every = Some(Duration::from_secs(30));
        let check = Definition { every, ..ONCE }.check(unit(), None, words("x")).unwrap();
        assert_eq!(check.ttl, Some(Duration::from_secs(90)));
        assert_eq!(ONCE.check(unit(), None, words("x")).unwrap().ttl, None);
        let ttl = Some(Duration::from_secs(40));
        let check = Definition { every, ttl, ..ONCE }.check(unit(), None, words("x")).unwrap();
        assert_eq!(check.ttl, ttl);
    }

    #[test]
    fn a_wrong_setting_is_named() {
        let long = Some(Duration::from_secs(11 * 86_400));
        for (definition, line, expected) in [
            (Definition { every: Some(Duration::ZERO), ..ONCE }, "x", "interval"),
            (Definition { every: long, ..ONCE }, "x", "interval"),
            (Definition { timeout: Duration::ZERO, ..ONCE }, "x", "timeout"),
            (Definition { ttl: Some(TTL_MAX * 2), ..ONCE }, "x", "ttl"),
            (Definition { warning_as: Level::Error, ..ONCE }, "x", "warning"),
            (Definition { critical_as: Level::Active, ..ONCE }, "x", "critical"),
            (ONCE, "", "command is empty"),
        ] {
            let error = definition.check(unit(), None, words(line)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}

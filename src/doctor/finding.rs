//! The findings of an examination of a store: one finding per check.

use serde::Serialize;

/// The severity of a finding; the worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The store does not work, or acknowledged writes will be lost.
    Error,
    /// The store works, but will cause a problem one day.
    Warning,
    /// The check could not be made.
    Unknown,
    /// The check passed.
    Ok,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check in kebab-case. Scripts may rely on it.
    pub check: &'static str,
    /// The severity.
    pub level: Level,
    /// The servers with this finding; empty for the store as a whole.
    pub servers: Vec<String>,
    /// The observation of the check.
    pub found: String,
    /// Why the finding matters; empty if all is well.
    pub why: String,
    /// What to do, in a sentence; may be empty.
    pub advice: String,
    /// What to do, as commands for the servers.
    pub commands: Vec<String>,
}

impl Finding {
    /// Returns a finding without a problem.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            check,
            level: Level::Ok,
            servers: Vec::new(),
            found: found.into(),
            why: String::new(),
            advice: String::new(),
            commands: Vec::new(),
        }
    }

    /// Returns a warning with its reason.
    pub fn warning(check: &'static str, found: impl Into<String>, why: &str) -> Finding {
        Finding { level: Level::Warning, why: why.into(), ..Finding::ok(check, found) }
    }

    /// Returns an error with its reason.
    pub fn error(check: &'static str, found: impl Into<String>, why: &str) -> Finding {
        Finding { level: Level::Error, why: why.into(), ..Finding::ok(check, found) }
    }

    /// Returns a finding for a check that could not be made, with the reason why its result
    /// matters.
    pub fn unknown(check: &'static str, found: impl Into<String>, why: &str) -> Finding {
        Finding { level: Level::Unknown, why: why.into(), ..Finding::ok(check, found) }
    }

    /// Adds a sentence on what to do.
    pub fn advise(mut self, advice: impl Into<String>) -> Finding {
        self.advice = advice.into();
        self
    }

    /// Adds a command for the server.
    pub fn command(mut self, command: impl Into<String>) -> Finding {
        self.commands.push(command.into());
        self
    }

    /// Sets the server that the finding is about.
    pub fn on(mut self, server: &str) -> Finding {
        self.servers = vec![server.to_string()];
        self
    }
}

/// Sorts the worst first, and merges equal findings of several servers.
pub fn in_order(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for mut finding in findings {
        let servers = std::mem::take(&mut finding.servers);
        let alike = merged
            .iter_mut()
            .find(|known| Finding { servers: Vec::new(), ..(*known).clone() } == finding);
        match alike {
            Some(known) => known.servers.extend(servers),
            None => merged.push(Finding { servers, ..finding }),
        }
    }
    merged.sort_by_key(|finding| finding.level);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_first_and_what_is_alike_is_one() {
        let found = in_order(vec![
            Finding::ok("version", "7").on("a"),
            Finding::warning("memory", "full", "so").on("a"),
            Finding::ok("version", "7").on("b"),
            Finding::ok("version", "8").on("c"),
            Finding::error("eviction", "lru", "so").on("b"),
        ]);
        let shown: Vec<String> = found
            .iter()
            .map(|f| format!("{} {} {}", f.check, f.found, f.servers.join("+")))
            .collect();
        assert_eq!(shown, ["eviction lru b", "memory full a", "version 7 a+b", "version 8 c"]);
    }
}

//! What a look at a store has found: one finding for each thing that was checked.

use serde::Serialize;

/// How good or bad a finding is; the worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It does not work, or what was acknowledged will be lost.
    Error,
    /// It works, and one day it will hurt.
    Warning,
    /// It could not be found out.
    Unknown,
    /// As it should be.
    Ok,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked, in kebab-case. Scripts may rely on it.
    pub check: &'static str,
    /// How good or bad it is.
    pub level: Level,
    /// The servers that it was found on; empty for the store as a whole.
    pub servers: Vec<String>,
    /// What was found.
    pub found: String,
    /// Why it matters; empty if all is well.
    pub why: String,
    /// What to do, in a sentence; may be empty.
    pub advice: String,
    /// What to do, as commands for the servers.
    pub commands: Vec<String>,
}

impl Finding {
    /// All is well.
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

    /// It will hurt one day, for this reason.
    pub fn warning(check: &'static str, found: impl Into<String>, why: &str) -> Finding {
        Finding { level: Level::Warning, why: why.into(), ..Finding::ok(check, found) }
    }

    /// It does not work, for this reason.
    pub fn error(check: &'static str, found: impl Into<String>, why: &str) -> Finding {
        Finding { level: Level::Error, why: why.into(), ..Finding::ok(check, found) }
    }

    /// It could not be found out, and this is why one would want to know.
    pub fn unknown(check: &'static str, found: impl Into<String>, why: &str) -> Finding {
        Finding { level: Level::Unknown, why: why.into(), ..Finding::ok(check, found) }
    }

    /// Says what to do, in a sentence.
    pub fn advise(mut self, advice: impl Into<String>) -> Finding {
        self.advice = advice.into();
        self
    }

    /// Says what to do, as a command for the server.
    pub fn command(mut self, command: impl Into<String>) -> Finding {
        self.commands.push(command.into());
        self
    }

    /// Says where it was found.
    pub fn on(mut self, server: &str) -> Finding {
        self.servers = vec![server.to_string()];
        self
    }
}

/// Puts the worst first, and makes one of what was found alike on several servers.
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
        let told: Vec<String> = found
            .iter()
            .map(|f| format!("{} {} {}", f.check, f.found, f.servers.join("+")))
            .collect();
        assert_eq!(told, ["eviction lru b", "memory full a", "version 7 a+b", "version 8 c"]);
    }
}

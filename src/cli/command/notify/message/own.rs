//! Messages about the notifier itself, and the example that `--test` sends.

use super::{Message, Winner};
use crate::cli::command::notify::hash::hash;
use crate::cli::command::notify::notice::{Notice, Topic};
use crate::domain::time::Timestamp;

/// The application of the notifier, and the process.
#[derive(Debug, Clone)]
pub struct Own {
    /// The namespace of the application.
    pub namespace: String,
    /// The application.
    pub application: String,
    /// The unit: this process.
    pub unit: String,
}

impl Own {
    /// Returns the message of a notice.
    pub fn notice(&self, notice: Notice, unsent: usize) -> Message {
        let said = match notice.topic {
            Topic::Blind => "notify cannot see: it has no connection to the server".to_string(),
            Topic::Full => format!("{unsent} problems are not sent: too many are open"),
        };
        let action = match notice.topic {
            Topic::Blind => "look whether the server runs: bellwether doctor",
            Topic::Full => "mark or mend what is open: bellwether status --problems",
        };
        let (kind, level) =
            if notice.begins { ("problem", "error") } else { ("resolved", "active") };
        let over = match notice.topic {
            Topic::Blind => "notify can see again",
            Topic::Full => "all problems are sent again",
        };
        let topic = if notice.topic == Topic::Blind { "blind" } else { "full" };
        let id = hash(&[&self.namespace, &self.application, &self.unit, topic, kind]);
        let message = if notice.begins { said } else { over.to_string() };
        let action = if notice.begins { action } else { "" };
        Message {
            id: format!("bw-{id:016x}-{:x}", notice.since.millis()),
            kind,
            level: level.to_string(),
            level_before: if notice.begins { "" } else { "error" }.to_string(),
            ..self.message(notice.since, topic, &message, action)
        }
    }

    /// Returns the example for a receiver.
    pub fn example(&self, now: Timestamp) -> Message {
        let message = "this is a test: a problem of an application would stand here";
        let id = hash(&[&self.namespace, &self.application, &self.unit, "test"]);
        Message {
            id: format!("bw-{id:016x}-{:x}", now.millis()),
            kind: "test",
            level: "active".to_string(),
            ..self.message(now, "test", message, "nothing: it was sent by bellwether notify --test")
        }
    }

    fn message(&self, since: Timestamp, route: &str, message: &str, action: &str) -> Message {
        let Own { namespace, application, unit } = self;
        let step = if action.is_empty() { String::new() } else { format!("\n-> {action}") };
        Message {
            id: String::new(),
            kind: "",
            route: route.to_string(),
            namespace: namespace.clone(),
            application: application.clone(),
            revision: 0,
            level: String::new(),
            level_before: String::new(),
            since: since.to_utc(),
            opened: since.to_utc(),
            message: message.to_string(),
            reason: String::new(),
            action: action.to_string(),
            rule: String::new(),
            winner: Winner { unit: unit.clone(), ..Winner::default() },
            because: Vec::new(),
            frees_count: 0,
            frees: Vec::new(),
            marks: Vec::new(),
            planned: false,
            acknowledged: false,
            coalesced_count: 0,
            cause: "",
            url: String::new(),
            text: format!("{namespace}/{application}: {unit}: {message}{step}"),
        }
    }
}

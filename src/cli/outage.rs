//! Reports that the connection is lost, and that it is back: each once, however many attempts fail
//! in between.

use bellwether_client::Event;

use crate::cli::context::say;
use crate::cli::refusal;

/// The state of the messages so far.
#[derive(Debug, Default)]
pub struct Outage {
    /// The last error printed, while it lasts.
    printed: Option<String>,
    /// Whether the server ever answered: its connections are served, whatever ends them.
    reached: bool,
}

impl Outage {
    /// Writes the line for an event to stderr, if any.
    pub fn tell(&mut self, event: &Event) {
        self.line(event).iter().for_each(|line| say(line));
    }

    /// Returns the line to print for an event, if any.
    pub fn line(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Disconnected { error, .. } => {
                let text = match self.reached {
                    true => error.to_string(),
                    false => refusal::sentence_of(error),
                };
                if self.printed.as_ref() == Some(&text) {
                    return None;
                }
                self.printed = Some(text.clone());
                Some(format!("disconnected: {text}"))
            }
            Event::Current => {
                let again = if std::mem::replace(&mut self.reached, true) { " again" } else { "" };
                self.printed.take().map(|_| format!("connected{again}"))
            }
            Event::Upserted(..) | Event::Removed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwether_client::Error;
    use std::time::Duration;

    #[test]
    fn each_outage_is_printed_once_and_its_end() {
        let mk_event = |detail: &str| Event::Disconnected {
            error: Error::Unreachable { url: "http://h:1".into(), detail: detail.into() },
            pause: Duration::ZERO,
        };
        let mut outage = Outage::default();
        assert_eq!(outage.line(&Event::Current), None);
        assert!(outage.line(&mk_event("broken pipe")).is_some_and(|it| !it.contains("50051")));
        assert!(outage.line(&mk_event("refused")).is_some());
        assert_eq!(outage.line(&mk_event("refused")), None);
        let back = Some("connected again".to_string());
        assert_eq!(outage.line(&Event::Current), back);
        assert_eq!(outage.line(&Event::Current), None);
        let mut first = Outage::default();
        let line = first.line(&mk_event("broken pipe"));
        assert!(line.is_some_and(|line| line.contains("if this is the ops port")));
        assert_eq!(first.line(&Event::Current).as_deref(), Some("connected"));
    }
}

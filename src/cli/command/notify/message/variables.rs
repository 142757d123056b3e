//! A message as the environment of a command.

use super::Message;

impl Message {
    /// Returns the message as environment variables of a command: those of `watch --exec`, and the
    /// rest of the message.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let flag = |is: bool| if is { "true" } else { "false" }.to_string();
        vec![
            ("BELLWETHER_EVENT", self.kind.to_string()),
            ("BELLWETHER_ID", self.id.clone()),
            ("BELLWETHER_ROUTE", self.route.clone()),
            ("BELLWETHER_NAMESPACE", self.namespace.clone()),
            ("BELLWETHER_APPLICATION", self.application.clone()),
            ("BELLWETHER_REVISION", self.revision.to_string()),
            ("BELLWETHER_LEVEL", self.level.clone()),
            ("BELLWETHER_LEVEL_FROM", self.level_before.clone()),
            ("BELLWETHER_SINCE", self.since.clone()),
            ("BELLWETHER_MESSAGE", self.message.clone()),
            ("BELLWETHER_REASON", self.reason.clone()),
            ("BELLWETHER_ACTION", self.action.clone()),
            ("BELLWETHER_RULE", self.rule.clone()),
            ("BELLWETHER_UNIT", self.winner.unit.clone()),
            ("BELLWETHER_COMPONENT", self.winner.component.clone()),
            ("BELLWETHER_BECAUSE", self.because.join("\n")),
            ("BELLWETHER_FREES_COUNT", self.frees_count.to_string()),
            ("BELLWETHER_PLANNED", flag(self.planned)),
            ("BELLWETHER_ACKNOWLEDGED", flag(self.acknowledged)),
            ("BELLWETHER_CAUSE", self.cause.to_string()),
            ("BELLWETHER_URL", self.url.clone()),
            ("BELLWETHER_TEXT", self.text.clone()),
        ]
    }
}

//! What a status needs, as people write it: `postgresql`, `infra/dns=active,waiting`, or words for
//! something outside.

use bellwether_client::InvalidNeed;
use serde_json::Value;

use crate::cli::{json, level};
use crate::proto::v1::{Level, Need, StatusReport};

/// What a status needs.
#[derive(Debug, clap::Args)]
pub struct NeedArgs {
    /// An application that must be active first, as postgresql or infra/dns; dns=active,waiting
    /// names the levels that are enough; may be repeated
    #[arg(long, value_name = "APP[=LEVEL,...]", value_parser = application)]
    #[arg(add = crate::cli::completion::applications())]
    needs: Vec<Need>,
    /// Something needed that is no application here, in words; may be repeated
    #[arg(long, value_name = "WORDS", value_parser = outside)]
    needs_outside: Vec<Need>,
}

/// The levels at which a need counts: a status that is well needs nothing.
const STATING: [Level; 4] = [Level::Waiting, Level::Maintenance, Level::Blocked, Level::Error];

impl NeedArgs {
    /// Returns the needs: first the applications, then what is outside.
    pub fn into_needs(self) -> Vec<Need> {
        self.needs.into_iter().chain(self.needs_outside).collect()
    }

    /// Adds the needs to each status of a set that is not well.
    pub fn add_to(self, statuses: &mut [StatusReport]) {
        let needs = self.into_needs();
        for status in statuses.iter_mut().filter(|status| STATING.contains(&status.level())) {
            status.needs.extend(needs.iter().cloned());
        }
    }
}

/// Reads `postgresql`, `infra/dns` or `dns=active,waiting`.
///
/// # Errors
/// A sentence with the accepted form.
fn application(text: &str) -> Result<Need, String> {
    text.parse().map_err(|error: InvalidNeed| match error {
        InvalidNeed::Name { .. } => format!("{error} (--needs-outside)"),
        other => other.to_string(),
    })
}

fn outside(words: &str) -> Result<Need, String> {
    match words.trim() {
        "" => Err("say in words what is needed, as: quota cpu of prod".to_string()),
        _ => Ok(Need::outside(words)),
    }
}

/// Writes needs as proto JSON has them: a text as the application that it names, the words of
/// levels as their names.
///
/// # Errors
/// A sentence with the accepted form.
pub fn with_names(needs: &mut Value) -> anyhow::Result<()> {
    let Value::Array(needs) = needs else {
        anyhow::bail!("needs: write a list, as [\"postgresql\", {{\"outside\": \"quota cpu\"}}]");
    };
    for (place, need) in needs.iter_mut().enumerate() {
        with_name(need).map_err(|error| anyhow::anyhow!("needs[{place}]: {error}"))?;
    }
    Ok(())
}

fn with_name(need: &mut Value) -> anyhow::Result<()> {
    if let Value::String(text) = need {
        let read = application(text).map_err(anyhow::Error::msg)?;
        *need = json::from_message(&read, "Need")?;
        return Ok(());
    }
    let levels = need.pointer_mut("/application/levels").and_then(Value::as_array_mut);
    for word in levels.into_iter().flatten() {
        level::with_name(word)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_are_refused_with_what_to_write() {
        for (text, cause) in [
            ("", "write NAME, NAMESPACE/NAME or NAME=LEVEL,LEVEL"),
            ("quota cpu of prod", "a need outside (--needs-outside)"),
            ("infra/", "names no application"),
            ("db/0", "is a unit; an application is needed as a whole: db"),
            ("db/0=active", "is a unit"),
            ("dns=", "has no level"),
            ("dns=up", "has no level \"up\"; use active, "),
        ] {
            let refused = application(text).expect_err(text);
            assert!(refused.contains(cause), "{text}: {refused}");
        }
        assert!(outside(" ").expect_err("no words").contains("quota cpu of prod"));
    }

    #[test]
    fn needs_of_a_set_are_texts_or_messages() {
        let mut given = serde_json::json!([
            "infra/dns=active,waiting",
            {"application": {"application": "db", "levels": ["waiting", "LEVEL_ACTIVE"]}},
            {"outside": "quota cpu of prod"},
        ]);
        with_names(&mut given).expect("needs");
        let status = serde_json::json!({ "level": "LEVEL_WAITING", "needs": given });
        let status: StatusReport = json::to_message(status, "StatusReport").expect("a status");
        let texts: Vec<String> = status.needs.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["infra/dns=active,waiting", "db=waiting,active", "quota cpu of prod"]);
        for (text, cause) in [
            (r#""db""#, "write a list"),
            (r#"["ok", "db/0"]"#, "needs[1]: \"db/0\" is a unit"),
            (r#"[{"application": {"levels": ["up"]}}]"#, "needs[0]: `up` is no level"),
        ] {
            let mut given: Value = serde_json::from_str(text).expect("JSON");
            let refused = with_names(&mut given).expect_err(text).to_string();
            assert!(refused.contains(cause), "{text}: {refused}");
        }
    }

    #[test]
    fn needs_of_the_command_line_are_those_of_every_status_that_is_not_well() {
        let status = |level: Level| StatusReport { level: level.into(), ..StatusReport::default() };
        let mut statuses =
            [status(Level::Waiting), status(Level::Active), status(Level::Terminated)];
        let args = NeedArgs {
            needs: vec![application("db").expect("a need")],
            needs_outside: vec![outside("a person").expect("a need")],
        };
        args.add_to(&mut statuses);
        assert_eq!(statuses.each_ref().map(|status| status.needs.len()), [2, 0, 0]);
    }
}

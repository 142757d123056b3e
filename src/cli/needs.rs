//! What a status needs, as people write it: `postgresql`, `infra/dns=active,waiting`, or words for
//! something outside.

use serde_json::Value;

use crate::cli::{json, level};
use crate::domain::name::AppName;
use crate::proto::v1::need::Object;
use crate::proto::v1::{ApplicationNeed, Level, Need, StatusReport};

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

/// Parses `postgresql`, `infra/dns` or `dns=active,waiting`.
///
/// # Errors
/// A sentence with the accepted form.
fn application(text: &str) -> Result<Need, String> {
    let (name, words) = match text.split_once('=') {
        Some((name, words)) => (name, Some(words)),
        None => (text, None),
    };
    let levels = words.map_or(Ok(Vec::new()), |words| levels(text, name, words))?;
    let (namespace, application) = name.split_once('/').unwrap_or(("", name));
    let is_number = !application.is_empty() && application.chars().all(|c| c.is_ascii_digit());
    if !namespace.is_empty() && is_number {
        return Err(format!(
            "`{name}` is a unit; an application is needed as a whole: {namespace}"
        ));
    }
    if name.starts_with('/') {
        return Err(format!("`{name}` has no namespace: write NAME, or NAMESPACE/NAME"));
    }
    AppName::new(namespace, application).map_err(|(part, error)| {
        format!(
            "the {part} of `{name}` {error}: write NAME, NAMESPACE/NAME or NAME=LEVEL,LEVEL; \
             --needs-outside takes words"
        )
    })?;
    let (namespace, application) = (namespace.to_string(), application.to_string());
    let needed = ApplicationNeed { namespace, application, levels };
    Ok(Need { object: Some(Object::Application(needed)) })
}

fn levels(text: &str, name: &str, words: &str) -> Result<Vec<i32>, String> {
    if words.is_empty() {
        return Err(format!("`{text}` names no level: write {name}, or {name}=active,waiting"));
    }
    words.split(',').map(|word| level::named(word).map(i32::from)).collect()
}

fn outside(words: &str) -> Result<Need, String> {
    match words.trim() {
        "" => Err("say in words what is needed, as: quota cpu of prod".to_string()),
        _ => Ok(Need { object: Some(Object::Outside(words.to_string())) }),
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

    fn shown(need: &Need) -> (&str, &str, Vec<&'static str>) {
        match need.object.as_ref().expect("an object") {
            Object::Application(needed) => {
                let levels = needed.levels.iter().map(|level| level::word(*level)).collect();
                (&needed.namespace, &needed.application, levels)
            }
            Object::Outside(words) => ("(outside)", words, Vec::new()),
        }
    }

    #[test]
    fn an_application_is_named_with_its_namespace_and_levels() {
        for (text, expected) in [
            ("postgresql", ("", "postgresql", vec![])),
            ("infra/dns", ("infra", "dns", vec![])),
            ("dns=active", ("", "dns", vec!["active"])),
            ("infra/dns=active,waiting", ("infra", "dns", vec!["active", "waiting"])),
        ] {
            let need = application(text).expect("a need");
            assert_eq!(shown(&need), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_what_to_write() {
        for (text, cause) in [
            ("", "write NAME, NAMESPACE/NAME"),
            ("quota cpu of prod", "--needs-outside takes words"),
            ("/dns", "has no namespace: write NAME, or NAMESPACE/NAME"),
            ("infra/", "the application of `infra/` is empty"),
            ("db/0", "`db/0` is a unit; an application is needed as a whole: db"),
            ("a/b/c", "the application of `a/b/c` has '/' at byte 1"),
            ("dns=", "`dns=` names no level: write dns, or dns=active,waiting"),
            ("dns=up", "`up` is no level: write one of error, blocked"),
            ("dns=active,", "`` is no level"),
            ("=active", "write NAME"),
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
        let expected = [
            ("infra", "dns", vec!["active", "waiting"]),
            ("", "db", vec!["waiting", "active"]),
            ("(outside)", "quota cpu of prod", vec![]),
        ];
        assert_eq!(status.needs.iter().map(shown).collect::<Vec<_>>(), expected);
        for (text, cause) in [
            (r#""db""#, "write a list"),
            (r#"["ok", "db/0"]"#, "needs[1]: `db/0` is a unit"),
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

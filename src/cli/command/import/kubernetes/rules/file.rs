//! A file of rules: for each kind, the three expressions with which Flux checks health
//! (`healthCheckExprs`), in its order.

use anyhow::bail;
use serde::Deserialize;

use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::health::{kstatus, of_state};
use crate::cli::command::import::kubernetes::object::Object;
use crate::cli::command::import::kubernetes::rules::expression::{Expression, Variables};
use crate::proto::v1::Level;

/// Limit of the rules of a file.
const RULES_MAX: usize = 1_024;

/// A file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    rule: Vec<RuleTable>,
}

/// One rule as it is written. The names of Flux are taken too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    #[serde(alias = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(alias = "inProgress")]
    in_progress: Option<String>,
    failed: Option<String>,
    current: String,
}

/// The rules of a file.
#[derive(Debug, Default)]
pub struct FileRules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    group: String,
    kind: String,
    /// Each with its name and the level of an object for which it is true.
    expressions: Vec<(&'static str, Level, Expression)>,
}

/// Reads a file.
///
/// # Errors
/// The line of a mistake, or the rule and the expression that cannot be parsed.
pub fn read(text: &str) -> anyhow::Result<FileRules> {
    let file: RuleFile = toml::from_str(text)?;
    if RULES_MAX < file.rule.len() {
        bail!("more than {RULES_MAX} rules");
    }
    file.rule.into_iter().map(Rule::of).collect::<anyhow::Result<_>>().map(FileRules)
}

impl FileRules {
    /// Returns the health of an object by the rule of its kind; `None` without one.
    pub fn assess(&self, object: &Object) -> Option<Verdict> {
        let is_of = |rule: &&Rule| rule.group == object.group() && rule.kind == object.kind();
        self.0.iter().find(is_of).map(|rule| rule.assess(object))
    }
}

impl Rule {
    fn of(table: RuleTable) -> anyhow::Result<Rule> {
        let RuleTable { api_version, kind, in_progress, failed, current } = table;
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_string();
        let given = [
            ("in_progress", Level::Maintenance, in_progress),
            ("failed", Level::Error, failed),
            ("current", Level::Active, Some(current)),
        ];
        let mut expressions = Vec::new();
        for (name, level, text) in given {
            let Some(text) = text else { continue };
            match Expression::parse(&text) {
                Ok(expression) => expressions.push((name, level, expression)),
                Err(error) => bail!("`{name}` of the rule for {kind} ({group}): {error}"),
            }
        }
        Ok(Rule { group, kind, expressions })
    }

    /// The first expression that is true decides; if none is, the object is in progress.
    fn assess(&self, object: &Object) -> Verdict {
        if let Some(found) =
            kstatus::general(object).filter(|found| found.reason == "GenerationNotObserved")
        {
            return of_state(found);
        }
        let variables = Variables::of(object);
        for (name, level, expression) in &self.expressions {
            match expression.evaluate(&variables) {
                Ok(false) => {}
                Ok(true) => {
                    let message = said(object).unwrap_or_else(|| format!("by the rule `{name}`"));
                    let reason = object.condition("Ready").map_or("", |ready| ready.reason);
                    let reason = if *level == Level::Active { "" } else { reason };
                    let verdict = Verdict::new(*level, reason, &message);
                    return verdict.field(format!("rule {name}: {}", expression.text()));
                }
                Err(error) => {
                    let message = format!("the rule `{name}` cannot be evaluated: {error}");
                    let verdict = Verdict::new(Level::Waiting, "HealthUnknown", &message);
                    return verdict.field(format!("rule {name}: {}", expression.text()));
                }
            }
        }
        let verdict = Verdict::new(Level::Maintenance, "", "no expression of its rule is true");
        verdict.field("rule current")
    }
}

/// Returns what the object says in its condition `Ready`, which most rules are about.
fn said(object: &Object) -> Option<String> {
    object.condition("Ready").map(|ready| ready.text())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const FLUX: &str = r#"
[[rule]]
apiVersion = "cert-manager.io/v1"
kind = "Certificate"
inProgress = "has(status.observedGeneration) && metadata.generation != status.observedGeneration"
failed = "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'False')"
current = "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')"
"#;

    fn level(rules: &str, status: Value) -> (Level, String) {
        let object = json!({"apiVersion": "cert-manager.io/v1beta1", "kind": "Certificate",
            "metadata": {"name": "tls", "generation": 2}, "status": status});
        let object = Object::new(object).expect("an object");
        let verdict = read(rules).expect("rules").assess(&object).expect("a rule of the kind");
        (verdict.level, verdict.reason)
    }

    #[test]
    fn the_expressions_of_flux_work_as_they_are() {
        let ready = |status: &str| {
            json!({"conditions": [{"type": "Ready", "status": status,
            "reason": "R"}]})
        };
        let of = |status: Value| level(FLUX, status);
        assert_eq!(of(ready("True")), (Level::Active, String::new()));
        assert_eq!(of(ready("False")), (Level::Error, "R".to_string()));
        assert_eq!(of(ready("Unknown")).0, Level::Maintenance);
        // `all` of nothing is true.
        assert_eq!(of(json!({"conditions": []})).0, Level::Error);
        let old = json!({"observedGeneration": 1, "conditions": []});
        assert_eq!(of(old).0, Level::Maintenance);
        // What cannot be evaluated is not active.
        assert_eq!(of(json!({})), (Level::Waiting, "HealthUnknown".to_string()));
        assert_eq!(of(json!(null)).0, Level::Waiting);
    }

    #[test]
    fn numbers_texts_and_optional_fields_can_be_compared() {
        let rule = |current: &str| {
            format!(
                "[[rule]]\napi_version = \"cert-manager.io/v1\"\nkind = \"Certificate\"\n\
                 current = '''{current}'''\n"
            )
        };
        let status = json!({"ready": 3, "share": 0.5, "phase": "Run-ning"});
        for (current, expected) in [
            ("status.ready == 3 && status.ready > 2", Level::Active),
            ("status.share < 1.0 && status.phase.startsWith('Run')", Level::Active),
            ("status.phase.matches('^Run')", Level::Active),
            ("has(status.nothing)", Level::Maintenance),
            ("status.nothing == 1", Level::Waiting),
            ("status.ready", Level::Waiting),
            ("metadata.name in ['tls', 'other'] && size(status.phase) == 8", Level::Active),
        ] {
            assert_eq!(level(&rule(current), status.clone()).0, expected, "{current}");
        }
    }

    #[test]
    fn a_mistake_in_a_file_names_its_place() {
        for (text, expected) in [
            ("[[rule]]\nkind = \"X\"\n", "missing field `api_version`"),
            ("[[rule]]\napi_version = \"a/v1\"\nkind = \"X\"\n", "missing field `current`"),
            ("[[rule]]\ncolour = 1\n", "line 2"),
            ("rules = 3", "unknown field `rules`"),
            (
                "[[rule]]\napi_version = \"a/v1\"\nkind = \"X\"\ncurrent = \"data.\"\n",
                "`current` of the rule for X (a)",
            ),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

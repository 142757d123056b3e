//! `bellwether explain-error`: the meaning of an error and the effect of a report. Asks no server.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::context::{Context, print_plain};
use crate::cli::evidence::EvidenceArgs;
use crate::cli::exit::UsageError;
use crate::config;
use crate::domain::classify::finding::Finding;
use crate::domain::classify::table::{self, Listed};
use crate::domain::classify::{Rules, classify, is_reason};
use crate::domain::level::Level;

/// Say what an error means: class, rule, verdict and effect, without asking a server
#[derive(clap::Args)]
// Other commands share the flag and need it always.
#[command(mut_arg("system", |system| {
    let system = system.required(false).default_value("").hide_default_value(true);
    system.conflicts_with("list")
}))]
pub struct Args {
    /// List the codes of all tables, or of this one: grpc, http, python, helm, redis
    #[arg(long, value_name = "SYSTEM", num_args = 0..=1)]
    list: Option<Option<String>>,
    #[command(flatten)]
    error: EvidenceArgs,
    /// Your own error rules, a file as `serve --error-rules` reads it
    #[arg(long, env = "BELLWETHER_ERROR_RULES", value_name = "FILE")]
    rules: Option<PathBuf>,
}

/// Classifies the error and prints the result.
pub fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    if let Some(system) = &args.list {
        return list(system.as_deref(), context);
    }
    let rules = match &args.rules {
        Some(path) => config::rules::read(path).map_err(|error| UsageError(error.to_string()))?,
        None => Rules::default(),
    };
    let evidence = args.error.evidence();
    if evidence.system.is_empty() {
        return Err(UsageError("say --system, or --list".to_string()).into());
    }
    if !evidence.reason.is_empty() && !is_reason(&evidence.reason) {
        let text = format!("reason {:?}: write UPPER_SNAKE of at most 63 bytes", evidence.reason);
        return Err(UsageError(text).into());
    }
    let finding = classify(&rules, &evidence);
    context.print_value(&as_value(&finding), || print_plain(&as_text(&finding)))
}

/// Prints the codes of the tables.
fn list(system: Option<&str>, context: &Context) -> anyhow::Result<()> {
    let lines = table::list(system);
    if let (Some(system), []) = (system, &*lines) {
        let text = format!("no table {system:?}; there are grpc, http, python, helm and redis");
        return Err(UsageError(text).into());
    }
    let values: Vec<_> = lines.iter().map(line_as_value).collect();
    let width = lines.iter().map(|line| line.code.len()).max().unwrap_or_default();
    let text = lines.iter().map(|Listed { system, code, found }| {
        let (class, why) = (found.class.word(), found.why);
        format!("{system:<7} {code:<width$}  {class:<12}  {why}\n")
    });
    context.print_value(&json!({ "codes": values }), || print_plain(&text.collect::<String>()))
}

fn line_as_value(line: &Listed) -> serde_json::Value {
    json!({
        "system": line.system,
        "code": line.code,
        "class": line.found.class.word(),
        "rule": line.found.rule,
        "explanation": line.found.why,
        "remedy": line.found.remedy,
    })
}

fn effect(finding: &Finding) -> &'static str {
    finding.class.level_at_once().map_or("none", Level::word)
}

fn as_value(finding: &Finding) -> serde_json::Value {
    json!({
        "class": finding.class.word(),
        "rule": finding.rule,
        "verdict": finding.action.word(),
        "effect": effect(finding),
        "counts_as_attempt": finding.class.counts_as_attempt(),
        "held": finding.class.holds(),
        "explanation": finding.explanation,
        "remedy": finding.remedy,
    })
}

fn as_text(finding: &Finding) -> String {
    let class = finding.class;
    let effect = match (effect(finding), class.counts_as_attempt()) {
        ("none", true) => "none at first; waiting, then error, if it continues".to_string(),
        (effect, _) => effect.to_string(),
    };
    let held = if class.holds() { "; the component is held" } else { "" };
    let mut text = format!(
        "class    {}\nrule     {}: {}\nverdict  {}\neffect   {effect}{held}\n",
        class.word(),
        finding.rule,
        finding.explanation,
        finding.action.word(),
    );
    if !finding.remedy.is_empty() {
        text.push_str(&format!("remedy   {}\n", finding.remedy));
    }
    text
}

//! `bellwether explain-error`: the meaning of an error and the effect of a report. Asks no server.

mod list;
#[cfg(test)]
mod page;
#[cfg(test)]
mod python;
mod unclassified;

use std::path::PathBuf;

use serde_json::json;

use crate::cli::context::{Context, print_plain};
use crate::cli::evidence::EvidenceArgs;
use crate::cli::exit::UsageError;
use crate::config;
use crate::domain::classify::finding::{Evidence, Finding};
use crate::domain::classify::word::{REASON, is_reason};
use crate::domain::classify::{Rules, classify, explain};
use crate::domain::level::Level;

/// Say what an error means: class, rule, source, verdict and effect, without asking a server
#[derive(clap::Args)]
// Other commands share the flag and need it always.
#[command(mut_arg("system", |system| {
    let system = system.required(false).default_value("").hide_default_value(true);
    system.conflicts_with("list")
}))]
pub struct Args {
    /// List the codes of all tables, or of this one: grpc, http, python, helm, redis, postgresql
    #[arg(long, value_name = "SYSTEM", num_args = 0..=1)]
    list: Option<Option<String>>,
    /// Read lines from the standard input, and list those that no row has, by their count. A line
    /// is CODE MESSAGE with --system, else SYSTEM CODE MESSAGE
    #[arg(long, conflicts_with_all = ["list", "code", "message"])]
    unclassified: bool,
    #[command(flatten)]
    error: EvidenceArgs,
    /// Your own error rules, a file as `serve --error-rules` reads it
    #[arg(long, env = "BELLWETHER_ERROR_RULES", value_name = "FILE")]
    rules: Option<PathBuf>,
}

/// Classifies the error and prints the result.
pub fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    if let Some(system) = &args.list {
        return list::print(system.as_deref(), context);
    }
    let rules = match &args.rules {
        Some(path) => config::rules::read(path).map_err(|error| UsageError(error.to_string()))?,
        None => Rules::default(),
    };
    let evidence = args.error.evidence();
    if args.unclassified {
        let lines = std::io::read_to_string(std::io::stdin())?;
        return unclassified::print(&rules, &evidence, &lines, context);
    }
    if evidence.system.is_empty() {
        return Err(UsageError("say --system, or --list".to_string()).into());
    }
    if !evidence.reason.is_empty() && !is_reason(&evidence.reason) {
        return Err(UsageError(format!("reason {:?}: write {REASON}", evidence.reason)).into());
    }
    let finding = classify(&rules, &evidence);
    let source = source(&rules, &evidence);
    let value = as_value(&finding, &source);
    context.print_value(&value, || print_plain(&as_text(&finding, &source)))
}

/// Returns the source of the rule that decides: a program, its version and its file, or a standard.
fn source(rules: &Rules, evidence: &Evidence) -> String {
    explain(rules, evidence).source.to_string()
}

fn effect(finding: &Finding) -> &'static str {
    finding.class.level_at_once().map_or("none", Level::word)
}

fn as_value(finding: &Finding, source: &str) -> serde_json::Value {
    json!({
        "class": finding.class.word(),
        "rule": finding.rule,
        "source": source,
        "verdict": finding.action.word(),
        "effect": effect(finding),
        "counts_as_attempt": finding.class.counts_as_attempt(),
        "held": finding.holds(),
        "explanation": finding.explanation,
        "remedy": finding.remedy,
    })
}

fn as_text(finding: &Finding, source: &str) -> String {
    let class = finding.class;
    let effect = match (effect(finding), class.counts_as_attempt()) {
        ("none", true) => "none at first; waiting, then error, if it continues".to_string(),
        (effect, _) => effect.to_string(),
    };
    let held = match (class.holds(), finding.holds()) {
        (_, true) => "; the component is held",
        (true, false) => "; the component is not held, and is tried again every 3 minutes",
        (false, false) => "",
    };
    let mut text =
        format!("class    {}\nrule     {}: {}\n", class.word(), finding.rule, finding.explanation,);
    if !source.is_empty() {
        text.push_str(&format!("source   {source}\n"));
    }
    text.push_str(&format!("verdict  {}\neffect   {effect}{held}\n", finding.action.word()));
    if !finding.remedy.is_empty() {
        text.push_str(&format!("remedy   {}\n", finding.remedy));
    }
    text
}

//! `bellwether replace APP/UNIT`: replaces the pull statuses of a unit by a set in JSON.

use std::fs::File;
use std::io::Read;

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::context::{Context, say, say_advice, say_dry};
use crate::cli::exit::UsageError;
use crate::cli::needs::NeedArgs;
use crate::cli::render::counted;
use crate::cli::target::UnitTarget;
use crate::cli::unit::UnitArgs;
use crate::cli::{json, level, needs};
use crate::proto::v1::{ReplaceStatusesRequest, StatusKind, StatusRecord, StatusReport};

/// Replace the pull statuses of a unit by a set: a JSON list of statuses, the most important first
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    #[command(flatten)]
    set: SetArgs,
    /// Incarnation of the reporting unit
    #[arg(long, value_name = "N")]
    incarnation: Option<u64>,
    /// Same id within 10 minutes: applied once
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
    /// Cut texts over their limit, with advice, instead of refusing the set
    #[arg(long)]
    cut_long_texts: bool,
}

/// The set, as the command line gives it.
#[derive(clap::Args)]
pub struct SetArgs {
    /// The file with the set, or - for stdin
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    file: String,
    /// Replace the set of this component only
    #[arg(long)]
    component: Option<String>,
    #[command(flatten)]
    needs: NeedArgs,
    /// Only say what would be removed
    #[arg(long)]
    pub dry_run: bool,
}

/// A set of statuses.
pub struct Set {
    /// The component whose set it is; `None`: the whole set.
    pub component: Option<String>,
    /// The statuses, the most important first.
    pub statuses: Vec<StatusReport>,
}

impl SetArgs {
    /// Reads the set.
    ///
    /// # Errors
    /// If the file cannot be read, or is no JSON list of statuses.
    pub fn read(self) -> anyhow::Result<Set> {
        let mut statuses = parse(&read(&self.file)?)?;
        self.needs.add_to(&mut statuses);
        Ok(Set { statuses, component: self.component })
    }
}

const EXAMPLE: &str = "\
Example:
  echo '[{\"component\": \"database\", \"level\": \"waiting\", \"message\": \"no endpoint yet\"},
         {\"level\": \"active\"}]' | bellwether replace web/0
Fields: component, key, level, message, shortMessage, reason, check, action, priority,
precedence, labels, ttl (\"90s\"), endAfter, observeTime, sinceUnknown,
needs ([\"postgresql\", {\"outside\": \"quota cpu of prod\"}])";

/// Maximum bytes of the JSON text of a set.
const SET_BYTES_MAX: u64 = 4 << 20;

/// Replaces the set, and prints what changed.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    let dry_run = args.set.dry_run;
    let set = args.set.read()?;
    if dry_run {
        let (client, namespace) = (context.connect().await?, context.namespace());
        let UnitTarget { application, unit } = &target;
        let now = client.list_unit_statuses(&namespace, application, unit).await;
        // The first report makes the unit.
        let now = now.or_else(|error| error.is_not_found().then(Vec::new).ok_or(error))?;
        say_dry(&preview(unit, &set, &now));
        return Ok(());
    }
    let Set { component, statuses } = set;
    let count = statuses.len();
    let request = ReplaceStatusesRequest {
        incarnation: args.incarnation,
        component,
        statuses,
        request_id: args.request_id,
        cut_long_texts: args.cut_long_texts,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    let result = (answer.changed, answer.removed_count, answer.revision);
    say(&outcome(&target.unit, count, result));
    say_advice(&answer.advice);
    Ok(())
}

/// Says what a replacement of the pull statuses `now` by a set would do.
pub fn preview(owner: &str, set: &Set, now: &[StatusRecord]) -> String {
    let kept = |old: &StatusReport| {
        set.statuses.iter().any(|new| {
            let component = set.component.as_ref().unwrap_or(&new.component);
            (component, &new.key) == (&old.component, &old.key)
        })
    };
    let is_meant = |old: &&StatusReport| {
        old.kind() == StatusKind::Pull
            && set.component.as_ref().is_none_or(|component| *component == old.component)
    };
    let before = now.iter().filter_map(|record| record.report.as_ref()).filter(is_meant);
    let gone = before.filter(|old| !kept(old)).count();
    let (count, gone) =
        (counted(set.statuses.len(), "status", "statuses"), counted(gone, "status", "statuses"));
    format!("would give {owner} {count} and remove {gone}")
}

fn read(file: &str) -> anyhow::Result<String> {
    let (name, source): (&str, Box<dyn Read>) = match file {
        "-" => ("stdin", Box::new(std::io::stdin())),
        file => (file, Box::new(File::open(file).with_context(|| format!("open {file}"))?)),
    };
    let mut text = String::new();
    let read = source.take(SET_BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("read {name}"))?;
    if u64::try_from(text.len())? > SET_BYTES_MAX {
        return Err(UsageError(format!("{name} has more than {SET_BYTES_MAX} bytes")).into());
    }
    Ok(text)
}

/// Reads `[{...}]` or `{"statuses": [{...}]}`.
fn parse(text: &str) -> Result<Vec<StatusReport>, UsageError> {
    let refused = |error: &dyn std::fmt::Display| {
        UsageError(format!("the set is no JSON list of statuses: {error}"))
    };
    let value: Value = serde_json::from_str(text).map_err(|error| refused(&error))?;
    let statuses = match value {
        Value::Array(statuses) => statuses,
        Value::Object(mut object) if object.len() == 1 => match object.remove("statuses") {
            Some(Value::Array(statuses)) => statuses,
            _ => return Err(refused(&"the only field of an object is `statuses`, a list")),
        },
        _ => return Err(refused(&"write [{\"level\": \"active\"}]")),
    };
    let read = |(place, status)| {
        let read = with_names(status).and_then(|status| json::to_message(status, "StatusReport"));
        read.map_err(|error| UsageError(format!("statuses[{place}]: {error}")))
    };
    statuses.into_iter().enumerate().map(read).collect()
}

/// Writes the words of levels, kinds and needs as proto JSON names them: `blocked` as
/// `LEVEL_BLOCKED`.
fn with_names(mut status: Value) -> anyhow::Result<Value> {
    if let Some(word) = status.get_mut("level") {
        level::with_name(word)?;
    }
    match status.get_mut("kind") {
        Some(Value::String(word)) if level::is_word(word) => {
            *word = format!("STATUS_KIND_{}", word.to_ascii_uppercase());
        }
        _ => {}
    }
    if let Some(given) = status.get_mut("needs") {
        needs::with_names(given)?;
    }
    Ok(status)
}

/// Formats `web/0 has 3 statuses, 1 removed (revision 12)` of what changed, what was removed, and
/// the revision.
pub fn outcome(unit: &str, count: usize, result: (bool, i32, u64)) -> String {
    let statuses = counted(count, "status", "statuses");
    match result {
        (false, _, revision) => {
            format!("no change: {unit} had these {statuses} (revision {revision})")
        }
        (true, 0, revision) => format!("{unit} has {statuses} (revision {revision})"),
        (true, gone, revision) => {
            format!("{unit} has {statuses}, {gone} removed (revision {revision})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Level, StatusKind};

    #[test]
    fn a_set_is_a_list_with_words_or_names() {
        let text = r#"[{"component": "db", "level": "blocked", "kind": "pull", "ttl": "90s"},
            {"level": "LEVEL_ACTIVE", "labels": {"a": "b"}}]"#;
        let statuses = parse(text).unwrap();
        assert_eq!(statuses[0].level(), Level::Blocked);
        assert_eq!(statuses[0].kind(), StatusKind::Pull);
        assert_eq!(statuses[0].ttl.unwrap().seconds, 90);
        assert_eq!(statuses[1].level(), Level::Active);
        assert_eq!(parse(&format!(r#"{{"statuses": {text}}}"#)).unwrap(), statuses);
        assert!(parse("[]").unwrap().is_empty());
    }

    #[test]
    fn other_documents_are_refused_with_the_cause() {
        for (text, cause) in [
            ("", "EOF"),
            ("7", "write [{"),
            ("{}", "write [{"),
            (r#"{"status": []}"#, "`statuses`"),
            (r#"{"unit": "web/1", "statuses": []}"#, "write [{"),
            (r#"[{"levl": "active"}]"#, "levl"),
            (r#"[{"level": "busy"}]"#, "`busy` is no level: write one of error, "),
            (r#"[{"message": 7}]"#, "statuses[0]: "),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }
}

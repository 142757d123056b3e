//! `bellwether watch`: prints a line for each change on a terminal, and JSON for programs.

mod change;
mod exec;
mod resume;

use std::io;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use bellwether_client::{Event, Watch};
use serde_json::Value;

use crate::cli::command::watch::change::{KnownLevels, LevelChange};
use crate::cli::command::watch::exec::Exec;
use crate::cli::context::{Context, print, screen};
use crate::cli::level::LevelWord;
use crate::cli::outage::Outage;
use crate::cli::output::Output;
use crate::cli::{json, span, suggest};
use crate::proto::v1::{ApplicationRemoved, Level, WatchApplicationsRequest};

/// Follow applications: a line for the current state of each, then one per change; JSON into a pipe
#[derive(clap::Args)]
pub struct Args {
    /// Only these applications
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    applications: Vec<String>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only while at one of these levels
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LEVEL,...")]
    levels: Vec<LevelWord>,
    /// Run the command after -- for each change, one at a time, with BELLWETHER_APPLICATION,
    /// _NAMESPACE, _EVENT, _LEVEL, _LEVEL_FROM, _MESSAGE, _REVISION, _SINCE, _REASON, _ACTION,
    /// _RULE, _UNIT, _COMPONENT, _BECAUSE, _PLANNED and _ACKNOWLEDGED in its environment
    #[arg(long, requires = "command")]
    exec: bool,
    /// Keep in this file what --exec has done, so that another start runs the command only for what
    /// has changed since
    #[arg(long, value_name = "FILE", requires = "exec")]
    resume: Option<PathBuf>,
    /// Show a change of level only after it has held this long
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    stable_for: Option<Duration>,
    /// The command that --exec runs
    #[arg(last = true, value_name = "CMD", requires = "exec")]
    command: Vec<String>,
}

/// Follows until interrupted.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let as_lines = match context.output_given {
        true => !context.output.is_structured(),
        false => io::stdout().is_terminal(),
    };
    let request = WatchApplicationsRequest {
        namespace: if args.all_namespaces { "-".to_string() } else { context.namespace() },
        applications: args.applications,
        levels: args.levels.into_iter().map(|l| Level::from(l).into()).collect(),
        stable_for: args.stable_for.map(span::on_wire),
        ..WatchApplicationsRequest::default()
    };
    let client = context.connect().await?;
    suggest::say_absent(client, &request.namespace, &request.applications).await;
    if !args.command.is_empty() {
        return Exec::new(args.command, client, context).run(request, args.resume).await;
    }
    let mut watch = Watch::new(client, request);
    let mut outage = Outage::default();
    let mut known = KnownLevels::default();
    loop {
        let event = watch.next().await?;
        outage.tell(&event);
        let change = known.take(&event);
        let text = match as_lines {
            true => change.and_then(|change| change.line(args.all_namespaces, screen())),
            false => document(&event, change.as_ref())?.map(|value| text(&value, context)),
        };
        if let Some(text) = text {
            print(&text)?;
        }
    }
}

/// Formats one line of JSON, one document of YAML, or the name of what changed.
fn text(value: &Value, context: &Context) -> String {
    match context.output {
        Output::Name => json::render(value, Output::Name).unwrap_or_default(),
        Output::Yaml => {
            let document = json::render(value, Output::Yaml).unwrap_or_default();
            format!("---\n{document}")
        }
        _ => json::line(value),
    }
}

/// Returns a change as a document; `None` if the event is not a change. The configuration is left
/// out: it is long, and `configure APP` shows it.
fn document(event: &Event, change: Option<&LevelChange>) -> anyhow::Result<Option<Value>> {
    Ok(match event {
        Event::Upserted(application, _) => {
            let mut value = json::from_message(application.as_ref(), "Application")?;
            if let Value::Object(fields) = &mut value {
                fields.shift_remove("config");
            }
            if let Some(from) = change.and_then(LevelChange::level_before) {
                value = json::with_first("level_changed_from", from.as_str_name(), value);
            }
            Some(json::with_first("event", "upserted", value))
        }
        Event::Removed { namespace, name } => {
            let removed = ApplicationRemoved { namespace: namespace.clone(), name: name.clone() };
            let value = json::from_message(&removed, "ApplicationRemoved")?;
            Some(json::with_first("event", "removed", value))
        }
        Event::Current | Event::Disconnected { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::Application;

    #[test]
    fn each_change_is_one_line() {
        let application =
            Application { name: "web".into(), revision: 12, ..Application::default() };
        let event = Event::Upserted(Box::new(application), vec![]);
        let value = document(&event, None).expect("json").expect("a document");
        let text = value.to_string();
        assert!(text.starts_with(r#"{"event":"upserted","namespace":"","name":"web","#), "{text}");
        assert!(!text.contains("config"), "{text}");
        assert!(text.contains(r#""revision":"12""#), "{text}");
        assert!(!text.contains('\n'));
    }

    #[test]
    fn a_removal_is_printed_and_the_current_mark_is_not() {
        let removed = Event::Removed { namespace: "default".into(), name: "web".into() };
        let text = document(&removed, None).expect("json").map(|v| v.to_string());
        let expected = r#"{"event":"removed","namespace":"default","name":"web"}"#;
        assert_eq!(text.as_deref(), Some(expected));
        assert!(document(&Event::Current, None).expect("json").is_none());
    }
}

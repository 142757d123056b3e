//! `bellwether watch`: one JSON line per change, for programs.

use std::time::Duration;

use serde_json::Value;

use crate::cli::context::Context;
use crate::cli::context::print;
use crate::cli::context::say;
use crate::cli::exit::Exit;
use crate::cli::exit::UsageError;
use crate::cli::json;
use crate::cli::level::LevelWord;
use crate::cli::outage::Outage;
use crate::cli::span;
use crate::client::Event;
use crate::client::Watch;
use crate::proto::v1::ApplicationRemoved;
use crate::proto::v1::Level;
use crate::proto::v1::WatchApplicationsRequest;

/// Follow applications: one JSON line per change on stdout, first for what is there already
#[derive(clap::Args)]
pub struct Args {
    /// Only these applications
    #[arg(value_name = "APP")]
    applications: Vec<String>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only while at one of these levels
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LEVEL,...")]
    levels: Vec<LevelWord>,
    /// Tell a change of level only after it has held this long
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    stable_for: Option<Duration>,
}

/// Follows until interrupted.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let request = request(args, context)?;
    let client = context.connect().await?;
    let mut watch = Watch::new(&client, request);
    let mut outage = Outage::default();
    loop {
        let event = watch.next().await?;
        if let Some(trouble) = outage.line(&event) {
            say(&trouble);
        }
        if let Some(line) = line(&event)? {
            print(&format!("{line}\n"))?;
        }
    }
}

fn request(args: Args, context: &Context) -> Result<WatchApplicationsRequest, UsageError> {
    let namespace = if args.all_namespaces { "-".to_string() } else { context.namespace() };
    let stable_for = args.stable_for.map(prost_types::Duration::try_from).transpose();
    Ok(WatchApplicationsRequest {
        namespace,
        applications: args.applications,
        levels: args.levels.into_iter().map(|l| Level::from(l).into()).collect(),
        stable_for: stable_for
            .map_err(|_| UsageError("--stable-for is longer than time goes".to_string()))?,
        ..WatchApplicationsRequest::default()
    })
}

/// A change as one line; `None` for what is none.
fn line(event: &Event) -> anyhow::Result<Option<Value>> {
    Ok(match event {
        Event::Upserted(application, _) => {
            let value = json::from_message(application.as_ref(), "Application")?;
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
        let text = line(&event).expect("json").expect("a line").to_string();
        assert!(text.starts_with(r#"{"event":"upserted","namespace":"","name":"web","#), "{text}");
        assert!(text.contains(r#""revision":"12""#), "{text}");
        assert!(!text.contains('\n'));
    }

    #[test]
    fn so_is_a_removal_and_nothing_else() {
        let removed = Event::Removed { namespace: "default".into(), name: "web".into() };
        let text = line(&removed).expect("json").map(|v| v.to_string());
        let expected = r#"{"event":"removed","namespace":"default","name":"web"}"#;
        assert_eq!(text.as_deref(), Some(expected));
        assert!(line(&Event::Current).expect("json").is_none());
    }
}

//! `bellwether ack`, `plan`, `unmark` and `marks`: what operators know and what they do on purpose.

pub mod ack;
pub mod list;
pub mod plan;
pub mod unmark;

use std::time::Duration;

use jiff::Timestamp;

use crate::cli::context::{Context, say, say_advice};
use crate::cli::exit::UsageError;
use crate::cli::render::mark::until;
use crate::cli::span;
use crate::cli::target::Target;
use crate::proto::v1::{Mark, SetMarkRequest};

/// What a new mark covers, and why.
#[derive(clap::Args)]
pub struct CoverArgs {
    /// Applications or units; an application is covered with all its units
    #[arg(value_name = "APP[/UNIT]", add = crate::cli::completion::units())]
    #[arg(required_unless_present = "all")]
    targets: Vec<String>,
    /// Every application of the namespace
    #[arg(long, conflicts_with_all = ["targets", "application", "component", "key", "id"])]
    all: bool,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
    /// Only this component of the unit
    #[arg(long)]
    component: Option<String>,
    /// Only this key of the component
    #[arg(long, requires = "component")]
    key: Option<String>,
    /// Why; others read it instead of the problem
    #[arg(short, long, value_name = "TEXT")]
    message: String,
    /// The id of the mark [default: chosen by the server]; a known one is changed
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    id: String,
    /// Who sets it, for servers without identities [default: $USER]
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
}

impl CoverArgs {
    /// Returns the applications and units that are named, or those of the namespace.
    async fn targets(&self, context: &Context) -> anyhow::Result<Vec<Target>> {
        if self.all {
            let client = context.connect().await?;
            let all = client.list_applications(&context.namespace()).await?;
            let targets = all.into_iter().map(|one| Target { application: one.name, unit: None });
            return Ok(targets.collect());
        }
        let targets: Result<Vec<Target>, UsageError> = match &self.application {
            Some(application) => {
                let of_pod = |unit: &String| Target {
                    application: application.clone(),
                    unit: Some(unit.clone()),
                };
                Ok(self.targets.iter().map(of_pod).collect())
            }
            None => self.targets.iter().map(|text| Target::parse(text)).collect(),
        };
        let targets = targets?;
        if self.component.is_some() && targets.iter().any(|target| target.unit.is_none()) {
            let text = "--component is of a unit: write APP/UNIT";
            return Err(UsageError(text.to_string()).into());
        }
        if !self.id.is_empty() && 1 < targets.len() {
            let text = "--id names one mark: give one application or unit with it";
            return Err(UsageError(text.to_string()).into());
        }
        Ok(targets)
    }

    /// Sets one mark for each target, and says so.
    async fn set(&self, mark: Mark, length: Duration, context: &Context) -> anyhow::Result<()> {
        let author = self.author.clone().or_else(|| std::env::var("USER").ok());
        for Target { application, unit } in self.targets(context).await? {
            let mark = Mark {
                mark_id: self.id.clone(),
                unit: unit.clone().unwrap_or_default(),
                component: self.component.clone(),
                key: self.key.clone(),
                reason: self.message.clone(),
                author: author.clone().unwrap_or_default(),
                ..mark.clone()
            };
            let during = Some(span::on_wire(length));
            let request =
                SetMarkRequest { mark: Some(mark), during, ..context.of_application(&application) };
            let answer = context.change(request).await?;
            let what = unit.unwrap_or(application);
            match &answer.mark {
                Some(mark) if answer.changed => say(&format!(
                    "{what}: {} {} (mark {}, revision {})",
                    if mark.in_force { "marked" } else { "will be marked" },
                    until(mark, Timestamp::now()),
                    mark.mark_id,
                    answer.revision
                )),
                Some(mark) => say(&format!("no change: {what} has mark {} already", mark.mark_id)),
                None => say(&format!("{what}: the mark has ended already")),
            }
            say_advice(&answer.advice);
        }
        Ok(())
    }
}

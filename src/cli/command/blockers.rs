//! `bellwether blockers`: what keeps applications from getting well, each first cause once.

use std::collections::HashMap;

use bellwether_client::proto::OfApplication;
use bellwether_client::{Client, Error};
use jiff::Timestamp;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::exit::Exit;
use crate::cli::parallel::{each, unless_gone};
use crate::cli::render::blockers::{View, render};
use crate::cli::render::need;
use crate::proto::v1::need::Object;
use crate::proto::v1::{
    Application, ApplicationNeed, Blocker, CauseState, GetApplicationRequest, Need,
};
use crate::service::severity::Silence;

/// List what keeps applications from getting well: the first causes, and what to do about them
///
/// Exits with 11 if there is one that needs help.
#[derive(clap::Args)]
pub struct Args {
    /// Show all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

/// Asks the server and prints the causes.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let home = (!args.all_namespaces).then(|| context.namespace());
    let client = context.connect().await?;
    let list = client.list_blockers(home.as_deref().unwrap_or("-")).await?;
    let silent = match context.output.is_structured() {
        true => HashMap::new(),
        false => silences(client, &list.blockers).await?,
    };
    context.print_message(&list, "ListBlockersResponse", || {
        if list.blockers.is_empty() {
            say(&none(home.as_deref(), list.self_healing_count));
            return Ok(());
        }
        let (home, silent) = (home.as_deref(), &silent);
        print(&render(&list, &View { home, silent, now: Timestamp::now(), screen: screen() }))
    })?;
    Ok(if list.blockers.is_empty() { Exit::Ok } else { Exit::Blocked })
}

/// Returns `2 of 3 units lost` for each application with silent units that is a cause, by its full
/// name.
async fn silences(client: &Client, blockers: &[Blocker]) -> Result<HashMap<String, String>, Error> {
    let silent = blockers.iter().filter(|blocker| blocker.state() == CauseState::Silent);
    let objects: Vec<&Need> = silent.flat_map(|blocker| blocker.objects.first()).collect();
    let ask = async |object: &Need| {
        let Some(Object::Application(ApplicationNeed { namespace, application, .. })) =
            &object.object
        else {
            return Ok(None);
        };
        let request = GetApplicationRequest::of_application(namespace, application);
        let found = unless_gone(client.call(request).await)?.and_then(|found| found.application);
        let words = found.map(|application| silence(&application)).unwrap_or_default();
        Ok((!words.is_empty()).then(|| (need::name(object, None), words)))
    };
    Ok(each(objects, ask).await?.into_iter().collect())
}

/// Formats `1 of 3 units stale, 2 of 3 units lost`.
fn silence(application: &Application) -> String {
    let all = application.unit_count;
    let units = if all == 1 { "unit" } else { "units" };
    let counts = Silence::of(application).counts();
    let words = counts.map(|(count, word)| format!("{count} of {all} {units} {word}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Says that the list is empty.
fn none(home: Option<&str>, self_healing: i32) -> String {
    let place = home.map(|home| format!(" in namespace {home}")).unwrap_or_default();
    match self_healing {
        count if count <= 0 => format!("nothing blocks an application{place}"),
        1 => format!("nothing that needs help blocks an application{place}; 1 cause heals itself"),
        count => format!(
            "nothing that needs help blocks an application{place}; {count} causes heal themselves"
        ),
    }
}

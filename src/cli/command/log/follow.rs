//! `log --follow`: a watch signals that an application changed, and the history has the events.

use bellwether_client::{Client, Error, Event, Watch};
use jiff::Timestamp;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::outage::Outage;
use crate::cli::output::Output;
use crate::cli::{json, render};
use crate::proto::v1::{ListStatusEventsRequest, StatusEvent, WatchApplicationsRequest};

/// The most events that are fetched after a change. Older ones beyond it are left out, with a note.
const EVENTS_MAX: usize = 1_000;

/// Prints the events given, newest first, and then each new one, until interrupted.
pub async fn run(
    client: &Client,
    query: ListStatusEventsRequest,
    events: Vec<StatusEvent>,
    context: &Context,
) -> anyhow::Result<()> {
    let request = WatchApplicationsRequest {
        namespace: query.namespace.clone(),
        applications: vec![query.application.clone()],
        ..WatchApplicationsRequest::default()
    };
    let mut watch = Watch::new(client, request);
    let mut outage = Outage::default();
    let newest = match events.first() {
        Some(newest) => Some(newest.clone()),
        // `--limit 0` prints no event of before.
        None => client.list_events(query.clone(), 1).await?.into_iter().next(),
    };
    // Without any event every event fetched later is new.
    let mut last = newest.map(|event| event.revision);
    put(&query.application, events, context)?;
    loop {
        let event = watch.next().await?;
        outage.tell(&event);
        if matches!(event, Event::Disconnected { .. }) {
            continue;
        }
        match newer(client, &query, last).await {
            Ok(events) => {
                last = events.first().map(|event| event.revision).or(last);
                put(&query.application, events, context)?;
            }
            // The next event of the watch triggers another attempt.
            Err(error) if error.is_passing() || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the events after this revision, newest first.
async fn newer(
    client: &Client,
    query: &ListStatusEventsRequest,
    last: Option<u64>,
) -> Result<Vec<StatusEvent>, Error> {
    let mut wanted = 16;
    loop {
        let mut events = client.list_events(query.clone(), wanted).await?;
        let is_new = |event: &StatusEvent| last.is_none_or(|last| last < event.revision);
        let found_all = events.len() < wanted || !events.iter().all(is_new);
        events.retain(is_new);
        if found_all {
            return Ok(events);
        }
        if EVENTS_MAX <= wanted {
            say(&format!("more than {EVENTS_MAX} events at once: the oldest are left out"));
            return Ok(events);
        }
        wanted = EVENTS_MAX;
    }
}

fn put(application: &str, events: Vec<StatusEvent>, context: &Context) -> anyhow::Result<()> {
    for event in events.iter().rev() {
        let text = match context.output.is_structured() {
            true if context.output == Output::Name => {
                json::render(&json::from_message(event, "StatusEvent")?, Output::Name)?
            }
            true => json::line(&json::from_message(event, "StatusEvent")?),
            false => render::log::line(application, event, Timestamp::now(), screen()),
        };
        print(&text)?;
    }
    Ok(())
}

//! `status --watch`: redrawn in place on a terminal, one table per change otherwise.

use std::collections::BTreeMap;
use std::io;
use std::io::IsTerminal;
use std::time::Duration;

use bellwether_client::{Client, Error, Event, Watch};
use tokio::time::{Instant, timeout_at};

use crate::cli::command::status::{Query, frame, gather, show};
use crate::cli::context::{print, say, screen};
use crate::cli::exit::Exit;
use crate::cli::outage::Outage;
use crate::cli::render::status::{ApplicationView, View};
use crate::cli::render::text::rows;
use crate::proto::v1::{Application, WatchApplicationsRequest};
use crate::service::severity;

/// Changes within this time are shown together.
const SETTLE: Duration = Duration::from_millis(100);

/// Redraw interval: ages grow without events.
const REDRAW: Duration = Duration::from_secs(1);

/// Applications whose units are gathered before the events that arrived meanwhile are taken.
const GATHERED_MAX: usize = 512;

type Name = (String, String);

/// The data shown, and the changes since it was gathered.
struct Live<'a> {
    client: &'a Client,
    query: &'a Query,
    /// What the filter selects.
    shown: BTreeMap<Name, ApplicationView>,
    changed: BTreeMap<Name, Application>,
    /// An event has arrived since the last frame.
    dirty: bool,
    current: bool,
    trouble: Option<Error>,
    outage: Outage,
    is_terminal: bool,
}

/// Shows the overview until interrupted.
pub async fn run(client: &Client, query: &Query) -> anyhow::Result<Exit> {
    // The server refuses names together with all namespaces; the filter selects by name then.
    let names = query.filter.names().filter(|_| query.namespace != "-");
    let request = WatchApplicationsRequest {
        namespace: query.namespace.clone(),
        applications: names.unwrap_or_default(),
        ..WatchApplicationsRequest::default()
    };
    let mut watch = Watch::new(client, request);
    let mut live = Live {
        client,
        query,
        shown: BTreeMap::new(),
        changed: BTreeMap::new(),
        dirty: true,
        current: false,
        trouble: None,
        outage: Outage::default(),
        is_terminal: io::stdout().is_terminal(),
    };
    let mut printed: Option<View> = None;
    loop {
        live.listen(&mut watch).await?;
        let has_changed = live.gather().await?;
        if live.is_terminal && !query.output.is_structured() {
            print(&live.frame())?;
        } else if has_changed && live.current && live.changed.is_empty() {
            let view = query.view(client, live.shown.values().cloned().collect());
            if printed.as_ref() != Some(&view) {
                show(&view, query)?;
                printed = Some(view);
            }
        }
    }
}

impl Live<'_> {
    /// Takes events until there is a pause, or it is time to redraw. While changes are left to
    /// gather, only events that are here are taken.
    async fn listen(&mut self, watch: &mut Watch) -> Result<(), Error> {
        let is_behind = !self.changed.is_empty() && self.trouble.is_none();
        let mut until = Instant::now() + if is_behind { Duration::ZERO } else { REDRAW };
        while let Ok(event) = timeout_at(until, watch.next()).await {
            self.take(event?);
            // A snapshot is taken whole; a later change is shown soon.
            if self.current {
                until = until.min(Instant::now() + SETTLE);
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event) {
        // A terminal shows the line above the tables for as long as the outage lasts.
        if let Some(line) = self.outage.line(&event).filter(|_| !self.is_terminal) {
            say(&line);
        }
        match event {
            Event::Upserted(application, _) => {
                self.changed.insert(name_of(&application), *application);
            }
            Event::Removed { namespace, name } => {
                let name = (namespace, name);
                self.changed.remove(&name);
                self.shown.remove(&name);
            }
            Event::Current => {
                self.current = true;
                self.trouble = None;
            }
            Event::Disconnected { error, .. } => self.trouble = Some(error),
        }
        self.dirty = true;
    }

    /// Gathers what has changed, the worst first; returns whether anything did. Data that cannot be
    /// gathered is retried with the next frame.
    async fn gather(&mut self) -> Result<bool, Error> {
        if !std::mem::take(&mut self.dirty) {
            return Ok(false);
        }
        let mut changed: Vec<&Application> = self.changed.values().collect();
        changed.sort_by(|a, b| severity::compare(a, b));
        let taken: Vec<Application> = changed.into_iter().take(GATHERED_MAX).cloned().collect();
        let names: Vec<Name> = taken.iter().map(name_of).collect();
        match gather::views(self.client, taken, self.query.is_wide()).await {
            Ok(views) => {
                for name in &names {
                    self.changed.remove(name);
                    self.shown.remove(name);
                }
                // One that is left out is deleted; the event of its removal follows.
                for view in views.into_iter().filter_map(|view| self.query.filter.apply(view)) {
                    self.shown.insert(name_of(&view.application), view);
                }
            }
            Err(error) if error.is_passing() => self.trouble = Some(error),
            Err(error) => return Err(error),
        }
        self.dirty = !self.changed.is_empty();
        Ok(true)
    }

    /// Formats what is shown, for the size that the terminal has now.
    fn frame(&self) -> String {
        let screen = screen();
        let mut shown: Vec<&ApplicationView> = self.shown.values().collect();
        self.query.sort(&mut shown);
        let is_new = |(name, _): &(&Name, &Application)| !self.shown.contains_key(*name);
        // What a filter selects of an application is known with its units.
        let waiting = self.changed.iter().filter(|_| self.query.filter.is_empty());
        let pending: Vec<&Application> =
            waiting.filter(is_new).map(|(_, application)| application).collect();
        let overview = frame::Overview {
            server: self.client.url(),
            namespace: self.query.shown_namespace(),
            applications: &shown,
            pending: &pending,
            trouble: self.trouble.as_ref(),
            wide: self.query.is_wide(),
        };
        let height = terminal_size::terminal_size().map_or(24, |(_, height)| height.0.into());
        frame::of(&overview, height, screen, |line| rows(line, screen.width))
    }
}

fn name_of(application: &Application) -> Name {
    (application.namespace.clone(), application.name.clone())
}

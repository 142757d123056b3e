//! `status --watch`: redrawn in place on a terminal, one table per change otherwise.

use std::collections::BTreeMap;
use std::io;
use std::io::IsTerminal;
use std::time::Duration;

use bellwether_client::{Client, Error, Event, Watch};
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use crate::cli::context::{print, say, screen};
use crate::cli::exit::Exit;
use crate::cli::outage::Outage;
use crate::cli::render;
use crate::cli::render::status::{ApplicationView, View};
use crate::cli::render::text::{fit, rows};
use crate::cli::render::{Screen, one_line};
use crate::cli::status::{Query, gather, show};
use crate::proto::v1::{Application, WatchApplicationsRequest};

/// Changes within this time are shown together.
const SETTLE: Duration = Duration::from_millis(100);

/// Redraw interval: ages grow without events.
const REDRAW: Duration = Duration::from_secs(1);

type Name = (String, String);

/// The data shown, and the changes since it was gathered.
struct Live<'a> {
    client: &'a Client,
    query: &'a Query,
    known: BTreeMap<Name, ApplicationView>,
    changed: BTreeMap<Name, Application>,
    /// An event has arrived since the last view.
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
        known: BTreeMap::new(),
        changed: BTreeMap::new(),
        dirty: true,
        current: false,
        trouble: None,
        outage: Outage::default(),
        is_terminal: io::stdout().is_terminal(),
    };
    let mut shown: Option<View> = None;
    loop {
        live.listen(&mut watch).await?;
        let view = live.view().await?;
        if live.is_terminal && !query.output.is_structured() {
            draw(&view, live.trouble.as_ref(), query.is_wide())?;
        } else if live.current && shown.as_ref() != Some(&view) {
            show(&view, query)?;
            shown = Some(view);
        }
    }
}

impl Live<'_> {
    /// Takes events until there is a pause, or it is time to redraw.
    async fn listen(&mut self, watch: &mut Watch) -> Result<(), Error> {
        let mut until = Instant::now() + REDRAW;
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
                let name = (application.namespace.clone(), application.name.clone());
                self.changed.insert(name, *application);
            }
            Event::Removed { namespace, name } => {
                let name = (namespace, name);
                self.changed.remove(&name);
                self.known.remove(&name);
            }
            Event::Current => {
                self.current = true;
                self.trouble = None;
            }
            Event::Disconnected { error, .. } => self.trouble = Some(error),
        }
        self.dirty = true;
    }

    /// Returns the current view. Data that cannot be gathered is retried with the next view.
    async fn view(&mut self) -> Result<View, Error> {
        if std::mem::take(&mut self.dirty) {
            for (name, application) in self.changed.clone() {
                match gather::view(self.client, application, self.query.is_wide()).await {
                    Ok(Some(view)) => drop(self.known.insert(name.clone(), view)),
                    // The event of its removal follows.
                    Ok(None) => {}
                    Err(error) if error.is_passing() => {
                        self.dirty = true;
                        self.trouble = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                }
                self.changed.remove(&name);
            }
        }
        let applications = self.known.values().cloned().collect();
        Ok(self.query.view(self.client, applications))
    }
}

/// Draws over the last view without flicker.
fn draw(view: &View, trouble: Option<&Error>, wide: bool) -> io::Result<()> {
    let screen = screen();
    let height = terminal_size::terminal_size().map_or(24, |(_, height)| usize::from(height.0));
    let mut text = render::status::render(view, wide, Timestamp::now(), screen);
    if let Some(error) = trouble {
        text = format!("! {}\n\n{text}", one_line(&error.to_string()));
    }
    print(&frame(&text, height, screen))
}

/// Formats the text from the top left corner, cut to the height, and clears the rest of the screen.
fn frame(text: &str, height: usize, screen: Screen) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let height_of =
        |lines: &[&str]| lines.iter().map(|line| rows(line, screen.width)).sum::<usize>();
    let fits = height_of(&lines) < height;
    let mut shown = lines.len();
    // One row for the note about the cut lines, and one for the cursor.
    while !fits && 0 < shown && height.saturating_sub(2) < height_of(&lines[..shown]) {
        shown -= 1;
    }
    let mut frame = String::from("\x1b[H");
    for line in &lines[..shown] {
        frame.push_str(&format!("{line}\x1b[K\n"));
    }
    if !fits {
        let more = format!("... and {} more lines", lines.len() - shown);
        frame.push_str(&format!("{}\x1b[K\n", fit(&more, screen.width, 0)));
    }
    frame.push_str("\x1b[J");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_never_scrolls() {
        let text = "one\ntwo\nthree\nfour\n";
        assert_eq!(
            frame(text, 5, Screen::PLAIN),
            "\x1b[Hone\x1b[K\ntwo\x1b[K\nthree\x1b[K\nfour\x1b[K\n\x1b[J"
        );
        assert_eq!(
            frame(text, 4, Screen::PLAIN),
            "\x1b[Hone\x1b[K\ntwo\x1b[K\n... and 2 more lines\x1b[K\n\x1b[J"
        );
        // A line that is never cut takes several rows.
        let screen = Screen { width: Some(4), color: false };
        let drawn = frame("one\n-> a long action\nthree\n", 5, screen);
        assert!(drawn.starts_with("\x1b[Hone\x1b[K\n... and 2"), "{drawn:?}");
    }
}

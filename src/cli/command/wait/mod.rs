//! `bellwether wait`: blocks until applications are at the wanted level.

mod goal;

use std::io;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use bellwether_client::proto::OfApplication;
use bellwether_client::{Client, Event, Watch};
use clap::ValueEnum;
use jiff::Timestamp;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cli::command::wait::goal::{Goal, Progress, Standing};
use crate::cli::context::{Context, say, say_lines, terminal_width};
use crate::cli::exit::{Exit, UsageError};
use crate::cli::level::LevelWord;
use crate::cli::outage::Outage;
use crate::cli::parallel::{each, unless_gone};
use crate::cli::render::text::fit;
use crate::cli::render::{Screen, one_line};
use crate::cli::target::Target;
use crate::cli::{level, render, span, suggest};
use crate::proto::v1::{ExplainApplicationRequest, Level, WatchApplicationsRequest};

/// Redraw interval: the line on a terminal shows seconds.
const REDRAW: Duration = Duration::from_secs(1);

/// How long a wait that gives up waits for the reasons.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Wait until applications are at a level; they need not exist yet
#[derive(clap::Args)]
pub struct Args {
    /// The applications
    #[arg(value_name = "APP", required = true, add = crate::cli::completion::applications())]
    applications: Vec<String>,
    /// The level to wait for, or several
    #[arg(long = "for", value_enum, value_delimiter = ',', value_name = "LEVEL,...")]
    #[arg(default_value = "active")]
    levels: Vec<LevelWord>,
    /// Give up after this long, with exit code 124; with 5 if the server never answered
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "10m")]
    timeout: Duration,
    /// How long the level must hold
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "0s")]
    stable_for: Duration,
    /// Give up at one of these levels, with exit code 6
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LEVEL,...")]
    fail_on: Vec<LevelWord>,
    /// One of the applications is enough
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// All applications must be at the level, the default
    #[arg(long)]
    all: bool,
    /// Accept a level that silent units have not confirmed in time
    #[arg(long)]
    allow_stale: bool,
}

/// Waits.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let started = Instant::now();
    refuse_levels(&args.applications)?;
    for name in &args.applications {
        Target::application_only(name)?;
    }
    // The server need not be up yet.
    let client = context.connect_lazily()?;
    let request = WatchApplicationsRequest {
        namespace: context.namespace(),
        applications: args.applications.clone(),
        ..WatchApplicationsRequest::default()
    };
    let levels = |words: &[LevelWord]| words.iter().map(|w| Level::from(*w)).collect();
    let goal = Goal {
        levels: levels(&args.levels),
        fail_on: levels(&args.fail_on),
        any: args.any,
        allow_stale: args.allow_stale,
        stable_for: args.stable_for,
    };
    let mut wait = Wait {
        client: client.clone(),
        namespace: context.namespace(),
        progress: Progress::new(goal, &args.applications, started),
        line: Line::new(started, args.timeout),
        outage: Outage::default(),
        has_suggested: false,
        deadline: started.checked_add(args.timeout),
    };
    wait.run(Watch::new(&client, request)).await
}

/// Refuses `wait web active`, which would wait for an application with the name of a level.
fn refuse_levels(names: &[String]) -> Result<(), UsageError> {
    let is_level = |name: &&String| LevelWord::from_str(name, true).is_ok();
    match names.iter().find(is_level) {
        Some(level) if 1 < names.len() => Err(UsageError(format!(
            "`{level}` is a level: write --for={level}; an application of this name needs a wait \
             of its own"
        ))),
        _ => Ok(()),
    }
}

struct Wait {
    client: Client,
    namespace: String,
    progress: Progress,
    line: Line,
    outage: Outage,
    has_suggested: bool,
    /// The end of the wait; absent if it is beyond the range of the clock.
    deadline: Option<Instant>,
}

impl Wait {
    async fn run(&mut self, mut watch: Watch) -> anyhow::Result<Exit> {
        loop {
            let now = Instant::now();
            let standing = self.progress.standing(now);
            if let Some(exit) = self.ended(&standing, now) {
                self.say_what_is_needed(&standing, exit).await;
                return Ok(exit);
            }
            self.line.draw(&self.describe(now));
            let mut until = self.deadline.unwrap_or(now + REDRAW).min(now + REDRAW);
            if let Standing::Holding(met) = standing {
                until = until.min(met);
            }
            let Ok(event) = timeout_at(until, watch.next()).await else { continue };
            let event = event?;
            if let Some(trouble) = self.outage.line(&event) {
                self.line.note(&trouble);
            }
            let has_changed = self.progress.take(&event, Instant::now());
            if matches!(event, Event::Current) {
                self.say_what_is_meant().await;
            }
            if let Event::Upserted(application, _) = &event {
                self.ask_who_is_silent(&application.name).await;
            }
            if has_changed && !self.line.is_terminal {
                self.line.note(&self.describe(Instant::now()));
            }
        }
    }

    fn describe(&self, now: Instant) -> String {
        self.progress.describe(now, Timestamp::now())
    }

    /// Asks for the names of silent units, for a better message; without an answer it has no names.
    async fn ask_who_is_silent(&mut self, name: &str) {
        if !self.progress.lacks_a_word(name) {
            return;
        }
        let units = self.client.list_units(&self.namespace, name, 0);
        let redraw = Instant::now() + REDRAW;
        let until = self.deadline.map_or(redraw, |deadline| deadline.min(redraw));
        if let Ok(Ok(units)) = timeout_at(until, units).await {
            self.progress.take_units(name, &units);
        }
    }

    /// Says once which application may be meant by a name that no application has.
    async fn say_what_is_meant(&mut self) {
        let absent = self.progress.absent();
        if absent.is_empty() || std::mem::replace(&mut self.has_suggested, true) {
            return;
        }
        let known = suggest::known(&self.client, &self.namespace).await.unwrap_or_default();
        for name in absent {
            let names = known.iter().map(String::as_str).chain(level::words());
            if let Some(meant) = suggest::among(&name, names) {
                self.line.note(&format!("{name} not there yet{meant}"));
            }
        }
    }

    /// Says what the applications need that the wait lacked, down to the first causes. Without
    /// an answer it says nothing.
    async fn say_what_is_needed(&self, standing: &Standing, exit: Exit) {
        let names: Vec<String> = match (standing, exit) {
            (Standing::Unmet(name), _) => vec![name.clone()],
            (_, Exit::TimedOut) if !self.progress.is_away() => {
                self.progress.lacking().cloned().collect()
            }
            _ => return,
        };
        let is_one = names.len() == 1;
        let explain = async |name: String| {
            let request = ExplainApplicationRequest {
                page_size: 1,
                ..OfApplication::of_application(&self.namespace, &name)
            };
            let why = unless_gone(self.client.call(request).await)?;
            Ok(why.map(|why| (name, render::causes::render(&why, Timestamp::now(), Screen::PLAIN))))
        };
        let Ok(Ok(explained)) = timeout(ANSWER_WAIT, each(names, explain)).await else { return };
        for (name, causes) in explained.iter().filter(|(_, causes)| !causes.is_empty()) {
            let title = if is_one { String::new() } else { format!("{name}:\n") };
            say_lines(&format!("{title}{}", causes.trim_end()));
        }
    }

    fn ended(&mut self, standing: &Standing, now: Instant) -> Option<Exit> {
        let (exit, words) = match standing {
            Standing::Met => (Exit::Ok, self.describe(now)),
            Standing::Unmet(name) => {
                let seen = self.progress.describe_one(name, Timestamp::now());
                (Exit::Unmet, format!("error: the wait can no longer be met: {seen}"))
            }
            _ if self.deadline.is_some_and(|deadline| deadline <= now) => {
                let (after, seen) = (span::exact(self.line.timeout), self.describe(now));
                let was_reached = self.progress.was_reached();
                let exit = if was_reached { Exit::TimedOut } else { Exit::Unreachable };
                (exit, format!("error: timed out after {after}: {seen}"))
            }
            _ => return None,
        };
        self.line.note(&words);
        Some(exit)
    }
}

/// The progress on stderr: one rewritten line on a terminal, else a line per change.
struct Line {
    is_terminal: bool,
    last: String,
    started: Instant,
    timeout: Duration,
}

impl Line {
    fn new(started: Instant, timeout: Duration) -> Line {
        Line { is_terminal: io::stderr().is_terminal(), last: String::new(), started, timeout }
    }

    /// Rewrites the line; does nothing without a terminal.
    fn draw(&self, words: &str) {
        if self.is_terminal {
            let text = progress(words, self.started.elapsed(), self.timeout);
            let text = fit(&text, Some(terminal_width().saturating_sub(1)), 0);
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Prints a line that stays, once.
    fn note(&mut self, words: &str) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        let line = one_line(words);
        if line != self.last {
            say(&line);
            self.last = line;
        }
    }
}

/// Formats the progress. The times come first: a long message is cut, they are not.
fn progress(words: &str, elapsed: Duration, timeout: Duration) -> String {
    let left = span::exact(timeout.saturating_sub(elapsed));
    format!("{} ({left} left)  {}", span::exact(elapsed), one_line(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_among_the_names_is_refused_with_what_is_meant() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let error = refuse_levels(&names(&["web", "active"])).expect_err("a level");
        assert!(error.to_string().contains("write --for=active"), "{error}");
        assert!(refuse_levels(&names(&["active"])).is_ok());
        assert!(refuse_levels(&names(&["web", "db"])).is_ok());
    }

    #[test]
    fn the_line_shows_level_elapsed_and_left() {
        let text =
            progress("web waiting: for\ndb", Duration::from_secs(12), Duration::from_secs(600));
        assert_eq!(text, "12s (9m48s left)  web waiting: for db");
    }
}

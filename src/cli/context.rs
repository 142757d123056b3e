//! What every command is given: where the server is, which namespace, how to print.

use std::env;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::time::Duration;

use anstream::AutoStream;
use anstream::ColorChoice;
use clap::ValueEnum;
use serde_json::Value;

use crate::cli::json;
use crate::cli::render::Screen;
use crate::cli::render::one_line;
use crate::cli::render::text;
use crate::cli::target::shell_word;
use crate::client::Client;

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For people with wide terminals.
    Wide,
    /// Canonical proto JSON.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Output {
    /// Whether it is for programs.
    pub fn is_structured(self) -> bool {
        matches!(self, Output::Json | Output::Yaml)
    }
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR says otherwise.
    Auto,
    /// Also into files and pipes.
    Always,
    /// Not at all.
    Never,
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> ColorChoice {
        match color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        }
    }
}

/// What every command is given.
#[derive(Debug, Clone)]
pub struct Context {
    /// URL of the server.
    pub server: String,
    /// As given; absent means [`Context::namespace`].
    pub namespace: Option<String>,
    /// How to print.
    pub output: Output,
    /// Whether that was asked for, and is not the default.
    pub output_given: bool,
    /// How long to wait for the answer to a call.
    pub request_timeout: Duration,
}

impl Context {
    /// Connects to the server.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(&self.server).await?.with_deadline(self.request_timeout))
    }

    /// As given, else the model of the Juju hook that runs this, else `default`.
    pub fn namespace(&self) -> String {
        self.namespace
            .clone()
            .or_else(|| juju_hook().and_then(|hook| hook.model))
            .unwrap_or_else(|| "default".to_string())
    }

    /// Whether data goes out as JSON or YAML.
    pub fn is_structured(&self) -> bool {
        self.output.is_structured()
    }

    /// A command line that goes on from here, for the last line of a message.
    pub fn hint(&self, command: &str) -> String {
        command_in(&self.namespace(), command)
    }
}

/// A command line for things of a namespace.
pub fn command_in(namespace: &str, command: &str) -> String {
    match namespace {
        "" | "default" => format!("bellwether {command}"),
        namespace => format!("bellwether -n {} {command}", shell_word(namespace)),
    }
}

/// The Juju hook that runs this process.
pub struct JujuHook {
    /// The unit whose hook it is.
    pub unit: String,
    /// The model, if Juju named it.
    pub model: Option<String>,
}

/// Found by the variables that Juju sets for its hooks.
pub fn juju_hook() -> Option<JujuHook> {
    let given = |name| env::var(name).ok().filter(|value| !value.is_empty());
    Some(JujuHook { unit: given("JUJU_UNIT_NAME")?, model: given("JUJU_MODEL_NAME") })
}

/// What stdout is.
pub fn screen() -> Screen {
    let stdout = io::stdout();
    Screen {
        width: stdout.is_terminal().then(terminal_width),
        color: AutoStream::choice(&stdout) != ColorChoice::Never,
    }
}

/// Columns of the terminal; 80 if it does not say.
pub fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
}

/// Writes plain text to stdout, without what could move the cursor.
///
/// # Errors
/// Of the write; a closed pipe among them.
pub fn print_plain(text: &str) -> io::Result<()> {
    print(&text::lines(text))
}

/// Writes what `render` made to stdout, at once and as it is.
///
/// # Errors
/// Of the write; a closed pipe among them.
pub fn print(text: &str) -> io::Result<()> {
    // Not through anstream: what is printed was made for the screen, and on a terminal without
    // colours it would take out the cursor movements as well.
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a value as JSON or YAML.
///
/// # Errors
/// Of the write.
pub fn print_value(value: &Value, output: Output) -> anyhow::Result<()> {
    Ok(print(&json::render(value, output)?)?)
}

/// Writes a line to stderr, without what could move the cursor: parts of it come from outside. A
/// stderr that is closed is no error.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", one_line(line));
}

/// The same for a text of several lines.
pub fn say_lines(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text::lines(text));
}

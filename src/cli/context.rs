//! The settings that every command shares: server, namespace, output format, timeout.

use std::ffi::OsString;
use std::io;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use bellwether_client::proto::{OfApplication, OfUnit, Unary};
use bellwether_client::{Client, Error, Security};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::cli::json;
use crate::cli::juju_hook::juju_hook;
use crate::cli::output::Output;
use crate::cli::render::{Screen, one_line, text};
use crate::cli::target::{UnitTarget, shell_word};
use crate::proto::v1::{Application, GetApplicationRequest};

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Also into files and pipes.
    Always,
    /// Never.
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

/// The settings that every command shares.
#[derive(Debug, Clone)]
pub struct Context {
    /// URL of the server.
    pub server: String,
    /// Certificates and token.
    pub security: Security,
    /// The namespace given; absent means [`Context::namespace`].
    pub namespace: Option<String>,
    /// The format of data.
    pub output: Output,
    /// Whether the command line gave the format.
    pub output_given: bool,
    /// How long to wait for the answer to a call.
    pub request_timeout: Duration,
    /// The connection to the server, once there is one.
    pub client: OnceCell<Client>,
}

impl Context {
    /// Returns the connection to the server; the first call makes it.
    ///
    /// # Errors
    /// Those of [`Client::connect_with`].
    pub async fn connect(&self) -> Result<&Client, Error> {
        let connect = async || {
            let client = Client::connect_with(&self.server, self.security.clone()).await?;
            Ok(client.with_deadline(self.request_timeout))
        };
        self.client.get_or_try_init(connect).await
    }

    /// Returns a connection that is made at its first use, for a command that waits for the server.
    ///
    /// # Errors
    /// Those of [`Client::connect_lazily`].
    pub fn connect_lazily(&self) -> Result<Client, Error> {
        let client = Client::connect_lazily(&self.server, self.security.clone())?;
        let client = client.with_deadline(self.request_timeout);
        // The command says at its end what the answers of the server say about its store.
        let _ = self.client.set(client.clone());
        Ok(client)
    }

    /// Makes a unary call.
    ///
    /// # Errors
    /// Those of [`Context::connect`], and the refusal of the server.
    pub async fn call<R: Unary>(&self, request: R) -> Result<R::Answer, Error> {
        self.connect().await?.call(request).await
    }

    /// Makes a call that changes something. Its answer is data for programs only: the command says
    /// on stderr what has changed.
    ///
    /// # Errors
    /// Those of [`Context::call`], and if the write fails.
    pub async fn change<R: Unary>(&self, request: R) -> anyhow::Result<R::Answer> {
        let answer = self.call(request).await?;
        self.print_message(&answer, R::ANSWER, || Ok(()))?;
        Ok(answer)
    }

    /// Returns a request that names an application and nothing else.
    pub fn of_application<R: OfApplication>(&self, application: &str) -> R {
        R::of_application(&self.namespace(), application)
    }

    /// Returns a request that names a unit and nothing else.
    pub fn of_unit<R: OfUnit>(&self, target: &UnitTarget) -> R {
        R::of_unit(&self.namespace(), &target.application, &target.unit)
    }

    /// Asks the server for an application.
    ///
    /// # Errors
    /// Those of [`Context::connect`], and the refusal of the server.
    pub async fn application(&self, name: &str) -> Result<Application, Error> {
        let request: GetApplicationRequest = self.of_application(name);
        Ok(self.call(request).await?.application.unwrap_or_default())
    }

    /// Returns the namespace given, else the model of the Juju hook that runs this process, else
    /// `default`.
    pub fn namespace(&self) -> String {
        self.namespace
            .clone()
            .or_else(|| juju_hook().and_then(|hook| hook.model))
            .unwrap_or_else(|| "default".to_string())
    }

    /// Returns the variables with which another `bellwether` uses the same server and credentials.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let Security { ca, certificate, key, token_file } = &self.security;
        let files = [
            ("BELLWETHER_CA", ca),
            ("BELLWETHER_CERT", certificate),
            ("BELLWETHER_CERT_KEY", key),
            ("BELLWETHER_TOKEN_FILE", token_file),
        ];
        let files = files.into_iter().filter_map(|(name, path)| Some((name, path.clone()?.into())));
        std::iter::once(("BELLWETHER_SERVER", self.server.clone().into())).chain(files).collect()
    }

    /// Prints a message as JSON or YAML, if data goes out so, else by `print_text`.
    ///
    /// # Errors
    /// If `name` is not the name of the message's type, or the write fails.
    pub fn print_message(
        &self,
        message: &impl prost::Message,
        name: &str,
        print_text: impl FnOnce() -> io::Result<()>,
    ) -> anyhow::Result<()> {
        match self.output.is_structured() {
            true => print_value(&json::from_message(message, name)?, self.output),
            false => Ok(print_text()?),
        }
    }

    /// Prints a value as JSON or YAML, if data goes out so, else by `print_text`.
    ///
    /// # Errors
    /// If the write fails.
    pub fn print_value(
        &self,
        value: &impl Serialize,
        print_text: impl FnOnce() -> io::Result<()>,
    ) -> anyhow::Result<()> {
        match self.output.is_structured() {
            true => print_value(&serde_json::to_value(value)?, self.output),
            false => Ok(print_text()?),
        }
    }

    /// Returns the command line that a person may run next, for the last line of a message.
    pub fn hint(&self, command: &str) -> String {
        command_in(&self.namespace(), command)
    }
}

/// Returns a command line with the namespace, unless that is the default one.
pub fn command_in(namespace: &str, command: &str) -> String {
    match namespace {
        "" | "default" => format!("bellwether {command}"),
        namespace => format!("bellwether -n {} {command}", shell_word(namespace)),
    }
}

/// Returns the width and the colours of stdout.
pub fn screen() -> Screen {
    let stdout = io::stdout();
    Screen {
        width: stdout.is_terminal().then(terminal_width),
        color: AutoStream::choice(&stdout) != ColorChoice::Never,
    }
}

/// Returns the columns of the terminal; 80 if they are unknown.
pub fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
}

/// Writes plain text to stdout, without characters that move the cursor.
///
/// # Errors
/// If the write fails, for example because the pipe is closed.
pub fn print_plain(text: &str) -> io::Result<()> {
    print(&text::lines(text))
}

/// Writes rendered text to stdout unchanged, and flushes.
///
/// # Errors
/// If the write fails, for example because the pipe is closed.
pub fn print(text: &str) -> io::Result<()> {
    // Not through anstream: the text is already rendered for the screen, and on a terminal without
    // colours anstream would remove the cursor movements too.
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a value as JSON or YAML.
///
/// # Errors
/// If the write fails.
pub fn print_value(value: &Value, output: Output) -> anyhow::Result<()> {
    Ok(print(&json::render(value, output)?)?)
}

/// Writes a line to stderr, without characters that move the cursor: parts of the line come from
/// outside. A closed stderr is not an error.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", one_line(line));
}

/// Writes to stderr what a command with `--dry-run` would have done.
pub fn say_dry(sentence: &str) {
    say(&format!("dry run: {sentence}; nothing was changed"));
}

/// Writes the advice of the server to stderr, a line each.
pub fn say_advice(advice: &[String]) {
    advice.iter().for_each(|advice| say(&format!("advice: {advice}")));
}

/// Writes a text of several lines to stderr, with the same rules as [`say`].
pub fn say_lines(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text::lines(text));
}

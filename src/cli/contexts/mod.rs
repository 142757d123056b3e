//! `bellwether context`: saves servers with their credentials under names, and the choice of the
//! context that a command uses.

mod file;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bellwether_client::Security;
use clap::builder::StyledStr;
use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCandidates;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::contexts::file::{Contexts, SavedContext};
use crate::cli::exit::{NotFoundError, UsageError};
use crate::cli::output::Output;
use crate::cli::render::table::Table;

/// The server without a flag, a variable or a context.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:50051";

/// Save servers with their credentials under names, and choose one
///
/// A command uses the context of --context or BELLWETHER_CONTEXT, else the current one. With
/// --server or BELLWETHER_SERVER and without --context it uses none, so that credentials of one
/// server never reach another.
#[derive(clap::Subcommand)]
pub enum Action {
    /// Save --server, --namespace, --ca, --cert, --cert-key and --token-file under a name
    Set {
        /// Name of the context
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
    },
    /// Make a context the current one
    Use {
        /// Name of the context
        #[arg(value_name = "NAME", add = names())]
        name: String,
    },
    /// List the contexts; `*` marks the current one
    List,
    /// Remove a context; its files stay
    Remove {
        /// Name of the context
        #[arg(value_name = "NAME", add = names())]
        name: String,
    },
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !text.is_empty() && text.len() <= 63 && text.chars().all(is_plain) {
        true => Ok(text.to_string()),
        false => Err("write 1 to 63 letters, digits, `.`, `_` and `-`".to_string()),
    }
}

/// The global options that choose a server.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The name of a context.
    pub context: Option<String>,
    /// URL of the server.
    pub server: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Certificates and token.
    pub security: Security,
}

impl Given {
    /// Returns the settings of a command with these options, without a context.
    pub fn settings(self, output: Option<Output>, request_timeout: Duration) -> Context {
        Context {
            server: self.server.unwrap_or_else(|| DEFAULT_SERVER.to_string()),
            security: self.security,
            namespace: self.namespace,
            output: output.unwrap_or(Output::Table),
            output_given: output.is_some(),
            request_timeout,
            client: OnceCell::new(),
        }
    }

    /// Returns the options, completed by the context that applies.
    ///
    /// # Errors
    /// If the file of the contexts is invalid, or has no context of that name.
    pub fn with_context(self) -> anyhow::Result<Given> {
        let Some(path) = file::path().filter(|_| self.context.is_some() || self.server.is_none())
        else {
            return match self.context {
                Some(_) => Err(no_file().into()),
                None => Ok(self),
            };
        };
        let contexts = Contexts::read(&path)?;
        let Some(name) = self.context.as_ref().or(contexts.current.as_ref()) else {
            return Ok(self);
        };
        let saved = contexts.get(name, &path)?.clone();
        let directory = path.parent().unwrap_or(Path::new(""));
        Ok(Given {
            context: None,
            server: self.server.or_else(|| saved.server.clone()),
            namespace: self.namespace.or_else(|| saved.namespace.clone()),
            security: saved.security(directory, self.security),
        })
    }

    /// Returns the options as a context to save. Paths become absolute, because the context is
    /// used in other directories.
    fn saved(&self) -> anyhow::Result<SavedContext> {
        let absolute = |path: &Option<PathBuf>| path.as_ref().map(std::path::absolute).transpose();
        let Security { ca, certificate, key, token_file } = &self.security;
        Ok(SavedContext {
            server: Some(self.server.clone().unwrap_or_else(|| DEFAULT_SERVER.to_string())),
            namespace: self.namespace.clone(),
            ca: absolute(ca)?,
            cert: absolute(certificate)?,
            cert_key: absolute(key)?,
            token_file: absolute(token_file)?,
        })
    }
}

fn no_file() -> UsageError {
    UsageError(format!("there is no home directory: set {}=FILE", file::VARIABLE))
}

/// Changes or prints the file of contexts.
pub fn run(action: Action, given: &Given, settings: &Context) -> anyhow::Result<()> {
    let path = file::path().ok_or_else(no_file)?;
    let mut contexts = Contexts::read(&path)?;
    match action {
        Action::List => return list(&contexts, settings),
        Action::Set { name } => {
            contexts.all.insert(name.clone(), given.saved()?);
            let current = contexts.current.get_or_insert_with(|| name.clone());
            say(&match *current == name {
                true => format!("saved context {name}; it is the current one"),
                false => format!("saved context {name}; see: bellwether context use {name}"),
            });
        }
        Action::Use { name } => {
            contexts.get(&name, &path)?;
            say(&format!("commands without --context use {name}"));
            contexts.current = Some(name);
        }
        Action::Remove { name } => {
            if contexts.all.remove(&name).is_none() {
                let place = path.display();
                return Err(NotFoundError(format!("{place} has no context `{name}`")).into());
            }
            contexts.current.take_if(|current| *current == name);
            say(&format!("removed context {name}"));
        }
    }
    contexts.write(&path)
}

fn list(contexts: &Contexts, settings: &Context) -> anyhow::Result<()> {
    let value = |(name, saved): (&String, &SavedContext)| {
        let mut value = json!(saved);
        if let Value::Object(fields) = &mut value {
            fields.retain(|_, saved| !saved.is_null());
        }
        value["name"] = json!(name);
        value["current"] = json!(contexts.is_current(name));
        value
    };
    let all: Vec<_> = contexts.all.iter().map(value).collect();
    settings.print_value(&json!({ "contexts": all }), || {
        if contexts.all.is_empty() {
            say("there are no contexts; save one: bellwether context set NAME --server URL");
            return Ok(());
        }
        print(&table(contexts).render(screen()))
    })
}

fn table(contexts: &Contexts) -> Table {
    let mut table = Table::new(&["Context", "Namespace", "Credentials", "Server"]);
    for (name, saved) in &contexts.all {
        let mark = if contexts.is_current(name) { "*" } else { "" };
        let credentials = match (&saved.token_file, &saved.cert) {
            (Some(_), Some(_)) => "token, certificate",
            (Some(_), None) => "token",
            (None, Some(_)) => "certificate",
            (None, None) => "-",
        };
        table.row(vec![
            format!("{name}{mark}").into(),
            saved.namespace.as_deref().unwrap_or("-").into(),
            credentials.into(),
            saved.server.as_deref().unwrap_or(DEFAULT_SERVER).into(),
        ]);
    }
    table
}

/// Completes names of contexts.
pub fn names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let contexts = file::path().and_then(|path| Contexts::read(&path).ok()).unwrap_or_default();
        let server = |saved: SavedContext| saved.server.map(StyledStr::from);
        let known = contexts.all.into_iter();
        known.map(|(name, saved)| CompletionCandidate::new(name).help(server(saved))).collect()
    })
}

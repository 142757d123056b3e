//! The file with the saved contexts: where it is, how it is read, and how it is replaced.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bellwether_client::Security;
use serde::{Deserialize, Serialize};

use crate::cli::exit::UsageError;
use crate::cli::private_file::replace;

/// The variable that names the file.
pub const VARIABLE: &str = "BELLWETHER_CONTEXTS";

/// A server with everything that a caller needs for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SavedContext {
    /// URL of the server.
    pub server: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// CA certificates that verify the server.
    pub ca: Option<PathBuf>,
    /// Certificate of the client.
    pub cert: Option<PathBuf>,
    /// Key of that certificate.
    pub cert_key: Option<PathBuf>,
    /// File with a token.
    pub token_file: Option<PathBuf>,
}

impl SavedContext {
    /// Returns the files of the context. Those of `given` come first; a certificate and its key
    /// stay together.
    pub fn security(&self, directory: &Path, given: Security) -> Security {
        let saved = |path: &Option<PathBuf>| path.as_ref().map(|path| directory.join(path));
        let has_certificate = given.certificate.is_some() || given.key.is_some();
        let (certificate, key) = match has_certificate {
            true => (given.certificate, given.key),
            false => (saved(&self.cert), saved(&self.cert_key)),
        };
        Security {
            ca: given.ca.or_else(|| saved(&self.ca)),
            certificate,
            key,
            token_file: given.token_file.or_else(|| saved(&self.token_file)),
        }
    }
}

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Contexts {
    /// The context of a command that names none.
    pub current: Option<String>,
    /// All contexts by name.
    #[serde(rename = "context")]
    pub all: BTreeMap<String, SavedContext>,
}

impl Contexts {
    /// Returns a context by name.
    ///
    /// # Errors
    /// If the file has no such context; the error lists the names that it has.
    pub fn get(&self, name: &str, path: &Path) -> Result<&SavedContext, UsageError> {
        self.all.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.all.keys().map(String::as_str).collect();
            let known = match known.is_empty() {
                true => "it has none".to_string(),
                false => format!("it has {}", known.join(", ")),
            };
            UsageError(format!("{} has no context `{name}`: {known}", path.display()))
        })
    }

    /// Whether the context of this name is the current one.
    pub fn is_current(&self, name: &str) -> bool {
        self.current.as_deref() == Some(name)
    }

    /// Reads the file. A file that does not exist has no contexts.
    ///
    /// # Errors
    /// If the file cannot be read or does not parse.
    pub fn read(path: &Path) -> anyhow::Result<Contexts> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        let invalid = |error| UsageError(format!("{}: {error}", path.display()));
        Ok(toml::from_str(&text).map_err(invalid)?)
    }

    /// Replaces the file, and makes its directory.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(directory) = path.parent() {
            let made = std::fs::create_dir_all(directory);
            made.with_context(|| format!("make {}", directory.display()))?;
        }
        let text = toml::to_string(self)?;
        replace(path, &format!("# Written by `bellwether context`.\n{text}"))
    }
}

/// Returns the path of the file: that of `BELLWETHER_CONTEXTS`, else the one in the directory for
/// configuration of the user; nothing for a user without a home.
pub fn path() -> Option<PathBuf> {
    let given = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration =
        given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")));
    given(VARIABLE).or_else(|| Some(configuration?.join("bellwether").join("contexts.toml")))
}

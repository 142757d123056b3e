//! The file of `notify`: receivers and routes.

mod file;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

use crate::cli::command::notify::engine::route::{DeliveryWay, Route};
use crate::cli::command::notify::glob;

pub use file::read;

/// Receivers at most.
pub const RECEIVERS_MAX: usize = 64;
/// Routes at most.
pub const ROUTES_MAX: usize = 256;

/// A file that was read and checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Namespace of the application in whose data the state is kept.
    pub namespace: String,
    /// Name of that application.
    pub application: String,
    /// Address of the status page, for links.
    pub page: Option<String>,
    /// Where the metrics are served.
    pub listen: Option<SocketAddr>,
    /// The receivers.
    pub receivers: Vec<ReceiverConfig>,
    /// The routes.
    pub routes: Vec<Route>,
}

/// A receiver of the file.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// Its name.
    pub name: String,
    /// What it is.
    pub target: Destination,
    /// How long one delivery may take.
    pub timeout: Duration,
}

/// What a receiver is.
#[derive(Debug, Clone)]
pub enum Destination {
    /// An Alertmanager with its API of version 2.
    Alertmanager(Endpoint),
    /// A receiver of Standard Webhooks 1.0, and the file of the secret.
    Webhook(Endpoint, PathBuf),
    /// A command with its arguments.
    Command(Vec<String>),
}

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The URL.
    pub url: Uri,
    /// Certificates that verify the server; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// A file with a bearer token.
    pub token_file: Option<PathBuf>,
}

impl Destination {
    /// Returns how deliveries to it are made.
    pub fn delivery(&self) -> DeliveryWay {
        match self {
            // An alert ends by itself unless it is sent again. One request takes many alerts.
            Destination::Alertmanager(_) => {
                DeliveryWay { at_once_max: 512, repeat_every: Some(Duration::from_secs(60)) }
            }
            Destination::Webhook(..) => DeliveryWay { at_once_max: 64, repeat_every: None },
            Destination::Command(_) => DeliveryWay { at_once_max: 1, repeat_every: None },
        }
    }
}

impl Config {
    /// Returns the namespaces to watch; `-` if a route may be about any.
    pub fn namespaces(&self) -> Vec<String> {
        let patterns = self.routes.iter().map(|route| &route.namespaces);
        let mut names: Vec<String> = patterns.clone().flatten().cloned().collect();
        let is_open = |patterns: &Vec<String>| {
            patterns.is_empty() || !patterns.iter().all(|pattern| glob::is_name(pattern))
        };
        if patterns.into_iter().any(is_open) {
            return vec!["-".to_string()];
        }
        names.sort();
        names.dedup();
        names
    }
}

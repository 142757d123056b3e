//! Receivers: where messages go.

mod alertmanager;
mod command;
mod webhook;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{StatusCode, Uri};
use rustls::ClientConfig;

use crate::cli::command::notify::config::{Destination, Endpoint, ReceiverConfig};
use crate::cli::command::notify::engine::pair::Kind;
use crate::cli::command::notify::message::Message;
use crate::domain::time::Timestamp;
use crate::security::get::{GetError, Post, roots};

/// Certificates that verify servers are read again after this.
const ROOTS_FRESH_FOR: Duration = Duration::from_secs(300);

/// Bytes of a file with a token or a secret at most.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// A message, and what the engine knows beside it.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// The message.
    pub message: Message,
    /// Its kind.
    pub kind: Kind,
    /// The level that the receiver was sent before.
    pub told_level: &'static str,
}

/// Why a delivery failed. No text has a URL or a secret.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// There was no answer in time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// There was no answer.
    #[error(transparent)]
    Http(#[from] GetError),
    /// The answer is no success.
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    /// The receiver wants nothing any more.
    #[error("the answer is 410, gone: nothing more is sent until a restart")]
    Gone,
    /// A file cannot be used.
    #[error("{0}: {1}")]
    File(String, String),
    /// The command failed.
    #[error("{0}")]
    Command(String),
    /// This program has a defect.
    #[error("a defect of bellwether: {0}")]
    Panic(String),
}

/// A receiver.
#[derive(Debug)]
pub struct Receiver {
    /// Its name and its settings.
    pub config: ReceiverConfig,
    /// Variables with the server and the credentials, for commands.
    variables: Vec<(&'static str, OsString)>,
    tls: Mutex<Option<(Instant, Arc<ClientConfig>)>>,
}

impl Receiver {
    /// Creates a receiver.
    pub fn new(config: ReceiverConfig, variables: Vec<(&'static str, OsString)>) -> Receiver {
        Receiver { config, variables, tls: Mutex::new(None) }
    }

    /// Delivers messages: one, or several if the receiver takes them together.
    ///
    /// # Errors
    /// If the receiver may not have all of them.
    pub async fn deliver(&self, parcels: &[Parcel], now: Timestamp) -> Result<(), DeliveryError> {
        let timeout = self.config.timeout;
        let delivering = async {
            match &self.config.target {
                Destination::Alertmanager(endpoint) => {
                    let body = alertmanager::body(parcels, now);
                    let path = alertmanager::url(&endpoint.url)?;
                    self.post(endpoint, &path, Vec::new(), body).await
                }
                Destination::Webhook(endpoint, secret) => {
                    for parcel in parcels {
                        let id = parcel.message.id.as_str();
                        let body = webhook::body(&parcel.message, now);
                        let headers = webhook::headers(id, &body, now, &read(secret)?)
                            .map_err(|error| file_error(secret, error))?;
                        self.post(endpoint, &endpoint.url, headers, body).await?;
                    }
                    Ok(())
                }
                Destination::Command(line) => {
                    for parcel in parcels {
                        command::run(line, &self.variables, &parcel.message).await?;
                    }
                    Ok(())
                }
            }
        };
        let delivered = tokio::time::timeout(timeout, delivering).await;
        delivered.unwrap_or(Err(DeliveryError::Late(timeout)))
    }

    /// Reads the files of the receiver.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn check(&self) -> Result<(), DeliveryError> {
        match &self.config.target {
            Destination::Alertmanager(endpoint) => {
                self.tls(endpoint)?;
                token(endpoint).map(drop)
            }
            Destination::Webhook(endpoint, secret) => {
                self.tls(endpoint)?;
                token(endpoint)?;
                let now = Timestamp::new(0);
                let headers = webhook::headers("id", &Bytes::new(), now, &read(secret)?);
                headers.map(drop).map_err(|error| file_error(secret, error))
            }
            Destination::Command(line) => command::check(line),
        }
    }

    async fn post(
        &self,
        endpoint: &Endpoint,
        url: &Uri,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<(), DeliveryError> {
        let (tls, token) = (self.tls(endpoint)?, token(endpoint)?);
        let post = Post { url, tls: &tls, token: token.as_deref(), headers, body };
        match post.send().await? {
            status if status.is_success() => Ok(()),
            StatusCode::GONE => Err(DeliveryError::Gone),
            status => Err(DeliveryError::Status(status)),
        }
    }

    /// Returns what verifies the server, read again from time to time.
    fn tls(&self, endpoint: &Endpoint) -> Result<Arc<ClientConfig>, DeliveryError> {
        let mut known = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, config)) = &*known
            && read.elapsed() < ROOTS_FRESH_FOR
        {
            return Ok(config.clone());
        }
        let config = roots(endpoint.ca.as_deref())?;
        *known = Some((Instant::now(), config.clone()));
        Ok(config)
    }
}

fn token(endpoint: &Endpoint) -> Result<Option<String>, DeliveryError> {
    let token = endpoint.token_file.as_deref().map(read).transpose()?;
    Ok(token.map(|token| token.trim().to_string()))
}

/// Reads a file with a secret: at each delivery, so that it can be replaced.
fn read(path: &Path) -> Result<String, DeliveryError> {
    use std::io::Read;

    let mut text = String::new();
    let opened = std::fs::File::open(path).map(|file| file.take(SECRET_BYTES_MAX));
    let read = opened.and_then(|mut file| file.read_to_string(&mut text));
    read.map_err(|error| file_error(path, error.to_string()))?;
    Ok(text)
}

fn file_error(path: &Path, detail: String) -> DeliveryError {
    DeliveryError::File(path.display().to_string(), detail)
}

//! How a link can fail, and what the crate's errors mean for who waits.

use std::error::Error as _;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, Value};

/// Why Redis was not asked, or did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// There is no connection to a master now. Nothing was sent.
    #[error("Redis is away: {reason}")]
    Away {
        /// What is wrong with it.
        reason: String,
    },
    /// It was sent, and no whole answer came back: it may have been done, it may yet be done even
    /// after a new connection was made, or it may never be.
    #[error("Redis did not answer: {reason}")]
    Ambiguous {
        /// What happened to the answer.
        reason: String,
    },
    /// Redis, or our configuration, says no: a person must act. Nothing was sent. The link goes on
    /// trying, because the person may act on the other side.
    #[error("Redis refuses: {reason}")]
    Refused {
        /// What to change.
        reason: String,
    },
}

impl LinkError {
    /// The sentence on what is wrong.
    pub fn reason(&self) -> &str {
        match self {
            LinkError::Away { reason }
            | LinkError::Ambiguous { reason }
            | LinkError::Refused { reason } => reason,
        }
    }

    pub(super) fn away(reason: impl Into<String>) -> LinkError {
        LinkError::Away { reason: reason.into() }
    }

    pub(super) fn refused(reason: impl Into<String>) -> LinkError {
        LinkError::Refused { reason: reason.into() }
    }

    /// Of a pipeline that was handed to a connection.
    pub(super) fn ambiguous(address: &str, error: &RedisError) -> LinkError {
        let reason = match error.is_timeout() {
            true => format!("no answer from {address} in time"),
            false => format!("the connection to {address} broke before the answer ({error})"),
        };
        LinkError::Ambiguous { reason }
    }

    /// Of an attempt to connect, in words that say what to check.
    pub(super) fn of_connecting(address: &str, error: &RedisError) -> LinkError {
        if let Some(reason) = tls_reason(error) {
            return LinkError::refused(format!("no TLS connection to {address}: {reason}"));
        }
        let said = error.detail().map_or_else(|| error.to_string(), str::to_string);
        match error.kind() {
            ErrorKind::AuthenticationFailed => LinkError::refused(format!(
                "{address} does not accept the user and password of --store ({said})"
            )),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => LinkError::refused(format!(
                "what answers on {address} is not Redis; check host and port of --store"
            )),
            ErrorKind::RESP3NotSupported => LinkError::refused(format!(
                "{address} is older than Redis 6, which is the oldest that serves as a store"
            )),
            ErrorKind::InvalidClientConfig => {
                LinkError::refused(format!("the settings for {address} cannot be used ({said})"))
            }
            ErrorKind::Io if error.is_timeout() => {
                LinkError::away(format!("no answer from {address} in time"))
            }
            ErrorKind::Io => LinkError::away(format!("cannot connect to {address} ({error})")),
            _ => of_reply(address, error.code().unwrap_or("ERR"), &said),
        }
    }
}

/// Of an error reply to what a new connection asks first.
pub(super) fn of_reply(address: &str, code: &str, said: &str) -> LinkError {
    match code {
        "NOAUTH" | "WRONGPASS" => LinkError::refused(format!(
            "{address} does not accept the user and password of --store ({code} {said})"
        )),
        "NOPERM" | "DENIED" => LinkError::refused(format!("{address} does not let us ({said})")),
        _ if said.contains("DB index") || said.contains("SELECT is not allowed") => {
            LinkError::refused(format!("{address} has no such database ({said})"))
        }
        _ if said.contains("unknown command") => {
            LinkError::refused(format!("{address} is not a Redis that serves as a store ({said})"))
        }
        _ => LinkError::away(format!("{address} says {code} {said}")),
    }
}

/// What TLS has against the connection, which only a person can change.
fn tls_reason(error: &RedisError) -> Option<String> {
    // The crate shows the shared pointer to the cause as the cause.
    let cause: &Arc<dyn std::error::Error + Send + Sync> = error.source()?.downcast_ref()?;
    let io: &std::io::Error = cause.downcast_ref()?;
    let tls: &rustls::Error = io.get_ref()?.downcast_ref()?;
    Some(match tls {
        rustls::Error::InvalidCertificate(_) => {
            format!("its certificate is not accepted ({tls}); check the CA file")
        }
        rustls::Error::AlertReceived(_) => {
            format!("it does not accept ours ({tls}); check the client certificate")
        }
        rustls::Error::InvalidMessage(_) => format!("it does not speak TLS ({tls})"),
        _ => tls.to_string(),
    })
}

/// What a reply says about the link it came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    /// This server cannot serve now, perhaps another one can.
    Leave,
    /// The slots are elsewhere than we think.
    Remap,
}

/// The code of an error reply that says that this server did not serve the command and another may.
pub(super) fn hint(value: &Value) -> Option<(Hint, &str)> {
    let Value::ServerError(error) = value else { return None };
    match error.code() {
        code @ ("READONLY" | "MASTERDOWN" | "LOADING") => Some((Hint::Leave, code)),
        code @ ("MOVED" | "ASK" | "CLUSTERDOWN") => Some((Hint::Remap, code)),
        _ => None,
    }
}

/// Whether a reply says that the server did not serve the command, because another one should:
/// nothing was done, and the link is looking for who does.
pub fn is_unserved(reply: &Value) -> bool {
    hint(reply).is_some()
}

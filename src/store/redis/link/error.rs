//! The errors of a link, and what the errors of the `redis` crate mean for a caller.

use std::error::Error as _;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, Value};

/// Why Redis was not asked, or did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// There is no connection to a master now. Nothing was sent.
    #[error("Redis is unreachable: {reason}")]
    Away {
        /// The problem in words.
        reason: String,
    },
    /// The request was sent, and the complete answer did not arrive. Redis may have executed the
    /// request, may execute it later (even after a new connection), or may never execute it.
    #[error("Redis did not answer: {reason}")]
    Ambiguous {
        /// What happened to the answer.
        reason: String,
    },
    /// Redis refuses, or the configuration is wrong: an operator must act. The link sent nothing.
    /// (Only a durability level that is not reached is reported after the commits are applied.) The
    /// link keeps trying, because the operator may change the server.
    #[error("Redis refuses: {reason}")]
    Refused {
        /// What to change.
        reason: String,
    },
}

impl LinkError {
    /// Returns the problem in words.
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

    /// Returns the error of a pipeline that was handed to a connection.
    pub(super) fn ambiguous(address: &str, error: &RedisError) -> LinkError {
        let reason = match error.is_timeout() {
            true => format!("no answer from {address} in time"),
            false => format!("the connection to {address} broke before the answer ({error})"),
        };
        LinkError::Ambiguous { reason }
    }

    /// Returns the error of an attempt to connect, with what to check.
    pub(super) fn of_connecting(address: &str, error: &RedisError) -> LinkError {
        if let Some(reason) = tls_reason(error) {
            return LinkError::refused(format!("no TLS connection to {address}: {reason}"));
        }
        let detail = error.detail().map_or_else(|| error.to_string(), str::to_string);
        match error.kind() {
            ErrorKind::AuthenticationFailed => LinkError::refused(format!(
                "{address} does not accept the user and password of --store ({detail})"
            )),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => LinkError::refused(format!(
                "the server at {address} is not Redis; check host and port of --store"
            )),
            ErrorKind::RESP3NotSupported => LinkError::refused(format!(
                "{address} is older than Redis 6, which is the oldest that serves as a store"
            )),
            ErrorKind::InvalidClientConfig => {
                LinkError::refused(format!("the settings for {address} cannot be used ({detail})"))
            }
            ErrorKind::Io if error.is_timeout() => {
                LinkError::away(format!("no answer from {address} in time"))
            }
            ErrorKind::Io => LinkError::away(format!("cannot connect to {address} ({error})")),
            _ => of_reply(address, error.code().unwrap_or("ERR"), &detail),
        }
    }
}

/// Returns the error for an error reply to the first commands of a connection.
pub(super) fn of_reply(address: &str, code: &str, detail: &str) -> LinkError {
    match code {
        "NOAUTH" | "WRONGPASS" => LinkError::refused(format!(
            "{address} does not accept the user and password of --store ({code} {detail})"
        )),
        "NOPERM" | "DENIED" => LinkError::refused(format!("{address} denies access ({detail})")),
        _ if detail.contains("DB index") || detail.contains("SELECT is not allowed") => {
            LinkError::refused(format!("{address} has no such database ({detail})"))
        }
        _ if detail.contains("unknown command") => LinkError::refused(format!(
            "{address} is not a Redis that serves as a store ({detail})"
        )),
        _ => LinkError::away(format!("{address} says {code} {detail}")),
    }
}

/// Returns why TLS refuses the connection, which only an operator can change.
fn tls_reason(error: &RedisError) -> Option<String> {
    // The crate returns the shared pointer to the cause as the cause.
    let cause: &Arc<dyn std::error::Error + Send + Sync> = error.source()?.downcast_ref()?;
    let io: &std::io::Error = cause.downcast_ref()?;
    let tls: &rustls::Error = io.get_ref()?.downcast_ref()?;
    Some(match tls {
        rustls::Error::InvalidCertificate(_) => {
            format!("its certificate is not accepted ({tls}); check the CA file")
        }
        rustls::Error::AlertReceived(_) => {
            format!("it rejects the client ({tls}); check the client certificate")
        }
        rustls::Error::InvalidMessage(_) => format!("it does not use TLS ({tls})"),
        _ => tls.to_string(),
    })
}

/// The consequence of an error reply for the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    /// This server cannot serve now; another one may.
    Leave,
    /// The slots have moved to other masters.
    Remap,
}

/// Returns the code of an error reply that says that this server did not serve the command and
/// another may.
pub(super) fn hint(value: &Value) -> Option<(Hint, &str)> {
    let Value::ServerError(error) = value else { return None };
    match error.code() {
        code @ ("READONLY" | "MASTERDOWN" | "LOADING") => Some((Hint::Leave, code)),
        code @ ("MOVED" | "ASK" | "CLUSTERDOWN") => Some((Hint::Remap, code)),
        _ => None,
    }
}

/// Returns whether a reply says that the server did not execute the command because another one
/// should. The link then looks for that server.
pub fn is_unserved(reply: &Value) -> bool {
    hint(reply).is_some()
}

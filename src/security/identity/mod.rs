//! Who calls: a principal, proven by a client certificate, a token or a JWT.
//!
//! ```text
//!  certificate --.
//!  authorization -+--> Protection::identify --> Identity: Principal, end of validity
//!                        two that differ, two headers: refused
//! ```

pub mod certificate;
pub mod jwt;
mod principal;
pub mod token;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use principal::{Kind, Principal};

use certificate::ClientCertificate;

/// How far the clock of an issuer may differ from that of this server.
pub const SKEW: Duration = Duration::from_secs(30);

/// What a caller presents.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The certificate of its connection.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// The header `authorization`.
    pub authorization: Authorization,
}

/// The header `authorization` of a call.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Authorization {
    /// There is none.
    #[default]
    Absent,
    /// One bearer token.
    Bearer(Arc<str>),
    /// More than one header, another scheme, or bytes that are no token.
    Unusable,
}

/// A caller that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Who it is.
    pub principal: Principal,
    /// When the proof ends; `None`: when it is revoked.
    pub ends: Option<SystemTime>,
}

/// Why a caller is not known. The log has it, the caller does not learn it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing was presented.
    #[error("no certificate and no token")]
    Nothing,
    /// The header is not one bearer token.
    #[error("the authorization header is not a single bearer token")]
    BadHeader,
    /// Certificate and token name different principals.
    #[error("certificate and token name different principals")]
    Ambiguous,
    /// The names of the certificate are not usable.
    #[error("the certificate has no usable name: {0}")]
    BadCertificate(&'static str),
    /// The certificate is not valid any more.
    #[error("the certificate has expired, or its authority is not trusted any more")]
    OldCertificate,
    /// No such token.
    #[error("the token is not known")]
    UnknownToken,
    /// The token has expired.
    #[error("the token has expired")]
    ExpiredToken,
    /// The JWT is invalid.
    #[error("the JWT is refused: {0}")]
    BadJwt(&'static str),
}

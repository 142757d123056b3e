//! Who calls: a principal, proven by a client certificate, a token or a JWT.
//!
//! ```text
//!  certificate --.
//!  authorization -+--> Authenticator --> Identity: Principal, end of validity
//!                        two that differ, two headers: refused
//! ```

pub mod certificate;
pub mod jwt;
mod principal;
pub mod token;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use principal::{Kind, Principal};

use super::Reloaded;
use super::tls::Tls;
use certificate::ClientCertificate;
use jwt::Issuer;
use token::TokenFile;

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

/// Identifies callers by the newest files.
#[derive(Default)]
pub struct Authenticator {
    /// Static tokens.
    pub tokens: Option<Arc<Reloaded<TokenFile>>>,
    /// Issuers of JWT, each with its name.
    pub issuers: Vec<Arc<Reloaded<Issuer>>>,
    /// Verifies client certificates; `None`: clients have none.
    pub certificates: Option<Tls>,
}

impl Authenticator {
    /// Returns whether there is any way to know a caller.
    pub fn knows_callers(&self) -> bool {
        self.tokens.is_some() || !self.issuers.is_empty() || self.certificates.is_some()
    }

    /// Identifies a caller. Called again for an open stream, so it checks everything each time.
    ///
    /// # Errors
    /// If the caller is not known, or presents two things that differ.
    pub fn identify(&self, given: &Credentials) -> Result<Identity, Refusal> {
        let now = SystemTime::now();
        let by_token = match &given.authorization {
            Authorization::Absent => None,
            Authorization::Unusable => return Err(Refusal::BadHeader),
            Authorization::Bearer(token) => Some(self.by_token(token, now)?),
        };
        let certificate = given.certificate.as_ref();
        let by_certificate = certificate.map(|given| self.by_certificate(given)).transpose()?;
        match (by_token, by_certificate) {
            (None, None) => Err(Refusal::Nothing),
            (Some(one), None) | (None, Some(one)) => Ok(one),
            (Some(one), Some(other)) if one.principal == other.principal => {
                let ends = [one.ends, other.ends].into_iter().flatten().min();
                Ok(Identity { ends, ..one })
            }
            (Some(_), Some(_)) => Err(Refusal::Ambiguous),
        }
    }

    fn by_token(&self, token: &str, now: SystemTime) -> Result<Identity, Refusal> {
        if token.starts_with(token::PREFIX) {
            let tokens = self.tokens.as_ref().ok_or(Refusal::UnknownToken)?;
            return tokens.get().identify(token, now);
        }
        jwt::identify(&self.issuers, token)
    }

    fn by_certificate(&self, certificate: &ClientCertificate) -> Result<Identity, Refusal> {
        let tls = self.certificates.as_ref().ok_or(Refusal::OldCertificate)?;
        if !tls.trusts(&certificate.chain) {
            return Err(Refusal::OldCertificate);
        }
        let principal = certificate.principal.clone().map_err(Refusal::BadCertificate)?;
        Ok(Identity { principal, ends: Some(certificate.ends) })
    }
}

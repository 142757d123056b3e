//! How callers prove who they are, from flags, variables and the file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Error, File};
use crate::security::identity::jwt::{Issuer, KeySource, key_url};

/// Flags about callers. Each is also a variable and a key of the file; issuers of JWT are in the
/// file alone.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct CallerFlags {
    /// File with the digests of tokens, written by `bellwether token`; every caller then needs a
    /// token, a JWT or a client certificate. Read again when it changes
    #[arg(long, env = "BELLWETHER_TOKENS", value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// File with the grants of roles, in TOML; needed as soon as callers prove who they are. Read
    /// again when it changes
    #[arg(long, env = "BELLWETHER_ROLES", value_name = "FILE")]
    pub roles: Option<PathBuf>,
}

/// How callers prove who they are, besides client certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Callers {
    /// The file with the digests of tokens.
    pub tokens: Option<PathBuf>,
    /// The issuers of JWT.
    pub issuers: Vec<Issuer>,
    /// The file with the grants.
    pub roles: Option<PathBuf>,
}

impl Callers {
    /// Returns whether callers may present a token of any kind.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some() || !self.issuers.is_empty()
    }
}

impl File {
    /// Returns how callers prove who they are; flags come before the file.
    pub(super) fn callers(&mut self, flags: CallerFlags) -> Result<Callers, Error> {
        let issuers = std::mem::take(&mut self.jwt);
        let mut names = BTreeSet::new();
        for issuer in &issuers {
            if !names.insert(issuer.name.clone()) {
                return Err(Error::IssuerTwice(issuer.name.clone()));
            }
            if let KeySource::Url(url) = &issuer.keys {
                let invalid = |problem| Error::KeyUrl(issuer.name.clone(), problem);
                key_url(url).map_err(invalid)?;
            }
            let is_file = matches!(issuer.keys, KeySource::File(_));
            if is_file && (issuer.keys_ca.is_some() || issuer.keys_token_file.is_some()) {
                return Err(Error::KeysOfFile(issuer.name.clone()));
            }
        }
        let roles = flags.roles.or(self.roles.take());
        Ok(Callers { tokens: flags.tokens.or(self.tokens.take()), issuers, roles })
    }
}

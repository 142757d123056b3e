//! JSON Web Tokens of named issuers, with keys from a file or a URL: JWKS, or one public key in
//! PEM.

pub mod fetch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Uri;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde::Deserialize;
use tokio::sync::Notify;

use super::principal::is_name;
use super::{Identity, Kind, Principal, Refusal, SKEW};
use crate::security::Error;
use crate::security::reload::{FileSet, Reloaded};

/// The largest JWT; a token of Kubernetes has 1 KiB.
const JWT_BYTES_MAX: usize = 12 << 10;

const NO_KEY: &str = "no key fits it";
const WRONG_SIGNATURE: &str = "its signature is wrong";
const OTHER_ISSUER: &str = "it is of another issuer";

/// Claims that every token has to have, with the right type.
const REQUIRED: [&str; 5] = ["exp", "nbf", "iss", "aud", "sub"];

/// An issuer whose tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// The name in principals: `jwt:NAME:SUBJECT`.
    pub name: String,
    /// The claim `iss`.
    pub issuer: String,
    /// The claim `aud`, or one of its values.
    pub audience: String,
    /// The keys: JWKS (JSON), or one public key in PEM.
    pub keys: KeySource,
    /// CA certificates in PEM that verify the server of a URL; `None`: those of the system.
    pub keys_ca: Option<PathBuf>,
    /// A file with the token that the server of a URL requires, such as the API server of
    /// Kubernetes.
    pub keys_token_file: Option<PathBuf>,
    /// Accepted algorithms: RS256, RS384, RS512, ES256, ES384 or EdDSA.
    #[serde(default = "default_algorithms")]
    pub algorithms: Vec<String>,
}

fn default_algorithms() -> Vec<String> {
    vec!["RS256".to_string(), "ES256".to_string()]
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// A URL.
    Url(String),
}

impl From<String> for KeySource {
    fn from(text: String) -> KeySource {
        match text.starts_with("https://") || text.starts_with("http://") {
            true => KeySource::Url(text),
            false => KeySource::File(text.into()),
        }
    }
}

/// Reads the URL of keys: https, or http of this machine.
///
/// # Errors
/// If the URL is invalid, or the keys could be replaced on the way.
pub fn key_url(text: &str) -> Result<Uri, &'static str> {
    let url: Uri = text.parse().map_err(|_| "the URL of the keys is invalid")?;
    let is_local = matches!(url.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme_str() == Some("https") || is_local {
        true => Ok(url),
        false => Err("keys over http could be replaced on the way; give an https URL"),
    }
}

/// The public keys of an issuer.
pub struct Keys {
    keys: Vec<IssuerKey>,
    /// Notified of a token whose key is not among these.
    missed: Arc<Notify>,
}

struct IssuerKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl IssuerKey {
    /// Returns whether a token with this header may be signed by this key.
    fn fits(&self, header: &Header) -> bool {
        let is_other = header.kid.as_ref().zip(self.id.as_ref()).is_some_and(|(a, b)| a != b);
        self.algorithm == header.alg && !is_other
    }
}

/// The claims that the server uses.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    /// A list is refused: it could name two issuers.
    iss: String,
    exp: u64,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Option<Kubernetes>,
}

#[derive(Debug, Deserialize)]
struct Kubernetes {
    namespace: Option<String>,
    pod: Option<Pod>,
}

#[derive(Debug, Deserialize)]
struct Pod {
    name: String,
}

impl FileSet for Issuer {
    type Value = Keys;
    const NAME: &'static str = "keys of an issuer";

    fn paths(&self) -> Vec<PathBuf> {
        match &self.keys {
            KeySource::File(path) => vec![path.clone()],
            KeySource::Url(_) => Vec::new(),
        }
    }

    fn parse(&self, contents: &[Vec<u8>]) -> Result<Keys, Error> {
        let invalid = |problem: String| match &self.keys {
            KeySource::File(path) => Error::invalid(path, problem),
            KeySource::Url(url) => Error::Fetch(url.clone(), problem),
        };
        let allowed = self.allowed().map_err(invalid)?;
        let keys = match contents.first() {
            // Until the first fetch, each token is refused.
            None => Vec::new(),
            Some(content) => self::keys(content, &allowed).map_err(invalid)?,
        };
        Ok(Keys { keys, missed: Arc::default() })
    }
}

impl Issuer {
    fn allowed(&self) -> Result<Vec<Algorithm>, String> {
        use Algorithm::{ES256, ES384, EdDSA, RS256, RS384, RS512};
        // No HS*: a public key must never serve as the secret of a signature.
        let known = [RS256, RS384, RS512, ES256, ES384, EdDSA];
        let find = |word: &String| {
            let found = word.parse().ok().filter(|algorithm| known.contains(algorithm));
            found
                .ok_or_else(|| format!("algorithm {word:?} is not accepted; give one of {known:?}"))
        };
        self.algorithms.iter().map(find).collect()
    }
}

/// Returns the keys of a file, which has one at least.
fn keys(content: &[u8], allowed: &[Algorithm]) -> Result<Vec<IssuerKey>, String> {
    let is_json = content.trim_ascii_start().starts_with(b"{");
    let keys = if is_json { of_jwks(content, allowed)? } else { of_pem(content, allowed) };
    match keys.is_empty() {
        true => Err("it has no key for the accepted algorithms".to_string()),
        false => Ok(keys),
    }
}

fn of_jwks(content: &[u8], allowed: &[Algorithm]) -> Result<Vec<IssuerKey>, String> {
    let set: JwkSet = serde_json::from_slice(content)
        .map_err(|error| format!("it is no JWKS (line {})", error.line()))?;
    let mut keys = Vec::new();
    for jwk in &set.keys {
        let Ok(key) = DecodingKey::from_jwk(jwk) else { continue };
        // A key without `alg` serves the accepted algorithms of its family.
        let fits = |algorithm: &&Algorithm| match jwk.common.key_algorithm {
            Some(named) => format!("{named:?}") == format!("{algorithm:?}"),
            None => algorithm.family() == key.family(),
        };
        keys.extend(allowed.iter().filter(fits).map(|algorithm| IssuerKey {
            id: jwk.common.key_id.clone(),
            algorithm: *algorithm,
            key: key.clone(),
        }));
    }
    Ok(keys)
}

fn of_pem(content: &[u8], allowed: &[Algorithm]) -> Vec<IssuerKey> {
    let read = |algorithm: Algorithm| match algorithm {
        Algorithm::ES256 | Algorithm::ES384 => DecodingKey::from_ec_pem(content),
        Algorithm::EdDSA => DecodingKey::from_ed_pem(content),
        _ => DecodingKey::from_rsa_pem(content),
    };
    let key = |algorithm: &Algorithm| {
        let key = read(*algorithm).ok()?;
        Some(IssuerKey { id: None, algorithm: *algorithm, key })
    };
    allowed.iter().filter_map(key).collect()
}

/// Identifies the bearer of a JWT.
pub(in crate::security) fn identify(
    issuers: &[Arc<Reloaded<Issuer>>],
    token: &str,
) -> Result<Identity, Refusal> {
    if JWT_BYTES_MAX < token.len() {
        return Err(Refusal::BadJwt("it is too long"));
    }
    let header = decode_header(token).map_err(|_| Refusal::BadJwt("its header is invalid"))?;
    // RFC 7515, 4.1.11: a token with an extension that the server does not know is refused.
    if header.crit.is_some() {
        return Err(Refusal::BadJwt("its header has crit, and the server knows no extension"));
    }
    let mut reason = NO_KEY;
    for issuer in issuers {
        for key in issuer.get().keys.iter().filter(|key| key.fits(&header)) {
            match verified(token, key, issuer.source()) {
                Ok(identity) => return Ok(identity),
                Err(other) if specificity(reason) < specificity(other) => reason = other,
                Err(_) => {}
            }
        }
    }
    if matches!(reason, NO_KEY | WRONG_SIGNATURE) {
        // The issuer may have new keys behind its URL.
        issuers.iter().for_each(|issuer| issuer.get().missed.notify_one());
    }
    Err(Refusal::BadJwt(reason))
}

/// Ranks the reasons of several keys. A key of another issuer finds a wrong signature in every
/// token, and of two issuers with the same keys one finds the name of the other. Any other reason
/// is that of the issuer of the token.
fn specificity(reason: &str) -> usize {
    let vague = [NO_KEY, WRONG_SIGNATURE, OTHER_ISSUER];
    vague.iter().position(|each| *each == reason).unwrap_or(vague.len())
}

fn verified(token: &str, key: &IssuerKey, issuer: &Issuer) -> Result<Identity, &'static str> {
    let mut validation = Validation::new(key.algorithm);
    validation.leeway = SKEW.as_secs();
    validation.validate_nbf = true;
    validation.set_required_spec_claims(&REQUIRED);
    validation.set_issuer(&[&issuer.issuer]);
    validation.set_audience(&[&issuer.audience]);
    let data = decode::<Claims>(token, &key.key, &validation);
    let claims = data.map(|data| data.claims).map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature => WRONG_SIGNATURE,
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => OTHER_ISSUER,
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::MissingRequiredClaim(_) => "a claim is missing or has another type",
        _ => "it is malformed",
    })?;
    if claims.iss != issuer.issuer {
        return Err(OTHER_ISSUER);
    }
    if !is_name(&claims.sub) {
        return Err("its subject has characters of no name");
    }
    let mut principal = Principal::new(Kind::Jwt, format!("{}:{}", issuer.name, claims.sub));
    if let Some(Kubernetes { namespace, pod }) = claims.kubernetes {
        principal.facts.extend(namespace.map(|namespace| ("namespace", namespace)));
        principal.facts.extend(pod.map(|pod| ("pod", pod.name)));
    }
    let ends = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(claims.exp));
    let ends = ends.and_then(|ends| ends.checked_add(SKEW));
    Ok(Identity { principal, ends: Some(ends.ok_or("its end is no time")?) })
}

#[cfg(test)]
mod tests;

//! What a connection and a call present: the certificate, the header `authorization`.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use crate::security::Protection;
use crate::security::identity::certificate::ClientCertificate;
use crate::security::identity::{Authorization, Credentials, Identity, Refusal};
use crate::sync::lock;

/// Longest header that is looked at: a JWT fits.
const HEADER_BYTES_MAX: usize = 12 << 10;

/// The certificate of a connection, and the last caller that was identified on it: an extension of
/// each of its requests. Verifying a signature takes longer than the rest of a short call.
#[derive(Clone, Default)]
pub struct Presented {
    certificate: Option<Arc<ClientCertificate>>,
    last: Arc<Mutex<Option<Last>>>,
}

struct Last {
    version: u64,
    authorization: Authorization,
    identity: Identity,
}

impl Presented {
    /// Creates the state of a connection.
    pub fn new(certificate: Option<ClientCertificate>) -> Presented {
        Presented { certificate: certificate.map(Arc::new), last: Arc::default() }
    }

    /// Returns the credentials of a call.
    pub fn credentials(&self, headers: &HeaderMap) -> Credentials {
        Credentials { certificate: self.certificate.clone(), authorization: authorization(headers) }
    }

    /// Identifies the caller. The answer for the previous call serves as long as nothing changed.
    ///
    /// # Errors
    /// If the caller is not known.
    pub fn identify(
        &self,
        protection: &Protection,
        given: &Credentials,
    ) -> Result<Identity, Refusal> {
        let version = protection.version();
        let mut last = lock(&self.last);
        let is_valid = |last: &&Last| {
            last.version == version
                && last.authorization == given.authorization
                && last.identity.ends.is_none_or(|ends| SystemTime::now() < ends)
        };
        if let Some(last) = last.as_ref().filter(is_valid) {
            return Ok(last.identity.clone());
        }
        let identity = protection.identify(given)?;
        let authorization = given.authorization.clone();
        *last = Some(Last { version, authorization, identity: identity.clone() });
        Ok(identity)
    }
}

fn authorization(headers: &HeaderMap) -> Authorization {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let token = match (all.next(), all.next()) {
        (None, _) => return Authorization::Absent,
        (Some(value), None) => bearer_token(value),
        (Some(_), Some(_)) => None,
    };
    token.map_or(Authorization::Unusable, |token| Authorization::Bearer(token.into()))
}

fn bearer_token(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok().filter(|text| text.len() <= HEADER_BYTES_MAX)?;
    let (scheme, token) = text.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && is_token(token)).then_some(token)
}

/// A bearer token has no spaces, and no commas, which would join two headers (RFC 6750, 2.1).
fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_bearer_token_is_taken_and_nothing_else() {
        let read = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
            }
            match authorization(&headers) {
                Authorization::Absent => "absent".to_string(),
                Authorization::Bearer(token) => token.to_string(),
                Authorization::Unusable => "unusable".to_string(),
            }
        };
        assert_eq!(read(&[]), "absent");
        assert_eq!(read(&[b"Bearer bw_a_b"]), "bw_a_b");
        assert_eq!(read(&[b"bearer e.y.J"]), "e.y.J");
        let long = [b"Bearer ".as_slice(), &[b'a'; 15_000]].concat();
        let refused: [&[&[u8]]; 9] = [
            &[b"Bearer a", b"Bearer a"],
            &[b"Bearer a, Bearer b"],
            &[b"Bearer  a"],
            &[b"Bearer "],
            &[b"Bearer"],
            &[b""],
            &[b"Basic YTpi"],
            &[b"Bearer \xc3\xa9"],
            &[&long],
        ];
        for values in refused {
            assert_eq!(read(values), "unusable", "{values:?}");
        }
    }
}

//! The name of a caller, and what its proof says about it.

use std::collections::BTreeMap;
use std::fmt;

/// How a principal is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A static token.
    Token,
    /// The URI of a certificate, as a SPIFFE ID.
    Uri,
    /// The DNS name of a certificate.
    Dns,
    /// The subject of a JWT, after the name of its issuer.
    Jwt,
}

/// A caller: `token:ci`, `uri:spiffe://example.org/ns/prod`, `dns:host`, `jwt:ISSUER:SUBJECT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// How it is known.
    pub kind: Kind,
    /// Its name of this kind.
    pub subject: String,
    /// Facts for the patterns of grants: `namespace`, `application`, `unit`, `pod`.
    pub facts: BTreeMap<&'static str, String>,
}

impl Principal {
    /// Returns a principal without facts.
    pub fn new(kind: Kind, subject: impl Into<String>) -> Principal {
        Principal { kind, subject: subject.into(), facts: BTreeMap::new() }
    }

    /// Returns the principal of a URI. A SPIFFE path `/ns/N/app/A/unit/U` gives the facts.
    pub fn of_uri(uri: &str) -> Principal {
        let facts = named_by(uri).into_iter().flatten().filter(|(_, value)| !value.is_empty());
        let facts = facts.map(|(name, value)| (name, value.to_string())).collect();
        Principal { facts, ..Principal::new(Kind::Uri, uri) }
    }
}

/// Returns whether a text can be the name of a caller: it goes into log lines and is compared with
/// patterns.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*')
}

/// Returns the facts in a SPIFFE path; what is left out is empty.
fn named_by(uri: &str) -> Option<[(&'static str, &str); 3]> {
    let (_, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
    let (namespace, rest) = path.strip_prefix("ns/")?.split_once("/app/")?;
    let (application, unit) = rest.split_once("/unit/").unwrap_or((rest, ""));
    let is_plain = !namespace.contains('/') && !application.contains('/');
    is_plain.then_some([("namespace", namespace), ("application", application), ("unit", unit)])
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Token => "token",
            Kind::Uri => "uri",
            Kind::Dns => "dns",
            Kind::Jwt => "jwt",
        };
        write!(f, "{kind}:{}", self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spiffe_path_of_the_known_form_gives_facts() {
        let facts = |uri: &str| {
            let facts = Principal::of_uri(uri).facts;
            facts.into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
        };
        for (uri, expected) in [
            ("spiffe://d/ns/prod/app/web/unit/web/0", "application=web namespace=prod unit=web/0"),
            ("spiffe://d/ns/prod/app/web", "application=web namespace=prod"),
            ("spiffe://d/ns/a/b/app/web", ""),
            ("spiffe://d/operator/alice", ""),
            ("https://d/ns/prod/app/web", ""),
        ] {
            assert_eq!(facts(uri), expected, "{uri}");
        }
    }
}

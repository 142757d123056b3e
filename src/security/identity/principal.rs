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
        let mut principal = Principal::new(Kind::Uri, uri);
        let path = uri.strip_prefix("spiffe://").and_then(|rest| rest.split_once('/'));
        let Some((_, path)) = path else { return principal };
        let Some((namespace, rest)) =
            path.strip_prefix("ns/").and_then(|rest| rest.split_once("/app/"))
        else {
            return principal;
        };
        let (application, unit) = match rest.split_once("/unit/") {
            Some((application, unit)) => (application, Some(unit)),
            None => (rest, None),
        };
        if namespace.contains('/') || application.contains('/') {
            return principal;
        }
        let facts = [("namespace", Some(namespace)), ("application", Some(application))];
        for (name, value) in facts.into_iter().chain([("unit", unit)]) {
            let value = value.filter(|value| !value.is_empty());
            principal.facts.extend(value.map(|value| (name, value.to_string())));
        }
        principal
    }
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

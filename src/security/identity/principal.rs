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
    ///
    /// # Errors
    /// If the URI has a segment that could stand for another path, so that it would fit the pattern
    /// of one and mean the other.
    pub fn of_uri(uri: &str) -> Result<Principal, &'static str> {
        if !has_plain_path(uri) {
            return Err("its URI has an empty, dotted or encoded segment");
        }
        let facts = named_by(uri).into_iter().flatten().filter(|(_, value)| !value.is_empty());
        let facts = facts.map(|(name, value)| (name, value.to_string())).collect();
        Ok(Principal { facts, ..Principal::new(Kind::Uri, uri) })
    }
}

/// Returns whether a text can be the name of a caller: it goes into log lines and is compared with
/// patterns.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*')
}

/// Returns whether the path of a URI has one spelling. A SPIFFE ID has no empty segment, no `.` and
/// `..`, no encoded character, no query and no fragment (its standard, section 2); of another URI,
/// only `.` and `..` matter.
fn has_plain_path(uri: &str) -> bool {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    if rest.split('/').any(|segment| [".", ".."].contains(&segment)) {
        return false;
    }
    let is_spiffe = scheme.eq_ignore_ascii_case("spiffe");
    !is_spiffe || (rest.split('/').all(|part| !part.is_empty()) && !rest.contains(['%', '?', '#']))
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
            let facts = Principal::of_uri(uri).unwrap().facts;
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

    #[test]
    fn a_uri_that_could_stand_for_another_path_is_refused() {
        for (uri, expected) in [
            ("spiffe://d/operator/alice", true),
            ("spiffe://d", true),
            ("spiffe://d/ns/a..b/.c/d.", true),
            ("https://d//a?b=%20", true),
            ("urn:uuid:7", true),
            ("spiffe://d/operator/../worker/bob", false),
            ("spiffe://d/operator/..", false),
            ("spiffe://d/operator/./alice", false),
            ("spiffe://d/operator//alice", false),
            ("spiffe://d/operator/alice/", false),
            ("spiffe:///operator/alice", false),
            ("spiffe://d/operator/%2e%2e/worker", false),
            ("spiffe://d/operator/alice?x", false),
            ("SPIFFE://d/operator//alice", false),
            ("https://d/operator/../alice", false),
        ] {
            assert_eq!(Principal::of_uri(uri).is_ok(), expected, "{uri}");
        }
    }
}

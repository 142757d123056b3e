//! The files that protect the ports: certificates, tokens, keys of issuers, roles.

use std::time::{Duration, SystemTime};

use crate::cli::render::time::of_seconds;
use crate::config::{Callers, TlsChoice};
use crate::doctor::Finding;
use crate::security::Reloaded;
use crate::security::identity::jwt::{KeySource, fetch};
use crate::security::identity::token::TokenFile;
use crate::security::reload::FileSet;
use crate::security::role::RoleFile;
use crate::security::tls::examine::{CertificateFacts, facts};

/// A certificate that ends earlier needs attention: the renewal should have run by then.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// Examines the files that `serve` would read.
pub fn examine(tls: Option<&TlsChoice>, callers: &Callers) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(TlsChoice { files, .. }) = tls {
        findings.extend(broken("tls", files.clone()));
        let content = std::fs::read(&files.certificate).unwrap_or_default();
        findings.extend(facts(&content).map(|facts| certificate(&facts, SystemTime::now())));
    }
    let tokens = callers.tokens.iter();
    findings.extend(tokens.filter_map(|path| broken("tokens", TokenFile(path.clone()))));
    findings.extend(callers.issuers.iter().filter_map(|issuer| broken("jwt", issuer.clone())));
    let roles = callers.roles.iter();
    findings.extend(roles.filter_map(|path| broken("roles", RoleFile(path.clone()))));
    findings
}

/// Fetches the keys of issuers that have a URL.
pub async fn examine_urls(callers: &Callers) -> Vec<Finding> {
    let mut findings = Vec::new();
    for issuer in &callers.issuers {
        let KeySource::Url(url) = &issuer.keys else { continue };
        let fetched = fetch::fetch(issuer).await;
        let parsed = fetched.and_then(|content| issuer.parse(&[content.to_vec()]));
        let why = "the server refuses the tokens of this issuer; with earlier keys, those of new \
                   keys";
        findings.push(match parsed {
            Ok(_) => Finding::ok("jwt", format!("{url} has keys of {:?}", issuer.name)),
            Err(error) => Finding::error("jwt", error.to_string(), why)
                .advise("look at the address, at keys_ca and at keys_token_file"),
        });
    }
    findings
}

/// Returns the mistake in a set of files.
fn broken<S: FileSet>(check: &'static str, files: S) -> Option<Finding> {
    let error = Reloaded::open(files).err()?;
    let why = "the server does not start with these files; a running one keeps the previous ones";
    Some(Finding::error(check, error.to_string(), why))
}

fn certificate(CertificateFacts { names, ends }: &CertificateFacts, now: SystemTime) -> Finding {
    let seconds = ends.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let shown = if names.is_empty() { "no name".to_string() } else { names.join(", ") };
    let found = format!("for {shown}, until {}", of_seconds(seconds));
    let renew = "renew it; the server reads the new file by itself";
    match ends.duration_since(now) {
        Err(_) => {
            Finding::error("certificate", found, "it has expired: clients refuse it").advise(renew)
        }
        Ok(left) if left < SOON => {
            Finding::warning("certificate", found, "it expires within 14 days").advise(renew)
        }
        Ok(_) if names.is_empty() => {
            Finding::error("certificate", found, "clients accept it for no address")
                .advise("add a subject alternative name for each address that clients use")
        }
        Ok(_) => Finding::ok("certificate", found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_certificate_is_judged_by_its_end_and_its_names() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let day = Duration::from_secs(86_400);
        let level = |names: &[&str], ends| {
            let names = names.iter().map(ToString::to_string).collect();
            certificate(&CertificateFacts { names, ends }, now).level
        };
        assert_eq!(level(&["h"], now + 90 * day), Level::Ok);
        assert_eq!(level(&["h"], now + 13 * day), Level::Warning);
        assert_eq!(level(&["h"], now - day), Level::Error);
        assert_eq!(level(&[], now + 90 * day), Level::Error);
    }
}

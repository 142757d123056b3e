//! The name of a client certificate: exactly one URI, or a DNS name. The common name never counts.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{Kind, Principal};

/// The certificate of a connection. The handshake has verified it.
#[derive(Debug)]
pub struct ClientCertificate {
    /// The certificate, then the intermediate ones.
    pub chain: Vec<CertificateDer<'static>>,
    /// The principal that it names, or why it names none.
    pub principal: Result<Principal, &'static str>,
    /// The end of its validity.
    pub ends: SystemTime,
}

impl ClientCertificate {
    /// Reads the certificate of a connection.
    pub fn new(chain: &[CertificateDer<'_>]) -> Option<ClientCertificate> {
        let first = chain.first()?;
        let chain = chain.iter().map(|each| each.clone().into_owned()).collect();
        let Ok((_, parsed)) = X509Certificate::from_der(first) else {
            let principal = Err("it cannot be parsed");
            return Some(ClientCertificate { chain, principal, ends: SystemTime::UNIX_EPOCH });
        };
        let seconds = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
        let ends = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        Some(ClientCertificate { chain, principal: principal(&parsed), ends })
    }
}

fn principal(certificate: &X509Certificate<'_>) -> Result<Principal, &'static str> {
    let names = match certificate.subject_alternative_name() {
        Ok(Some(extension)) => &extension.value.general_names,
        Ok(None) => return Err("it has no subject alternative name"),
        Err(_) => return Err("its subject alternative name is invalid"),
    };
    let uris = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    let mut dns = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    match uris.collect::<Vec<_>>()[..] {
        [uri] if is_clean(uri) => Ok(Principal::of_uri(uri)),
        [_] => Err("its URI has characters of no URI"),
        [_, _, ..] => Err("it has more than one URI"),
        [] => match (dns.next(), dns.next()) {
            (Some(name), None) if is_clean(name) => Ok(Principal::new(Kind::Dns, name)),
            (Some(_), None) => Err("its DNS name has characters of no name"),
            (Some(_), Some(_)) => Err("it has more than one DNS name and no URI"),
            (None, _) => Err("it has neither a URI nor a DNS name"),
        },
    }
}

/// A name goes into log lines and is compared with patterns.
fn is_clean(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*')
}

//! The name of a client certificate: exactly one URI, or a DNS name. The common name never counts.

use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::principal::is_name;
use super::{Kind, Principal};
use crate::security::tls::examine;

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
        let (principal, ends) = (principal(&parsed), examine::ends(&parsed));
        Some(ClientCertificate { chain, principal, ends })
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
    let dns = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    match (&uris.collect::<Vec<_>>()[..], &dns.collect::<Vec<_>>()[..]) {
        ([uri], _) if is_name(uri) => Principal::of_uri(uri),
        ([_], _) => Err("its URI has characters of no URI"),
        ([_, ..], _) => Err("it has more than one URI"),
        ([], [name]) if is_name(name) => Ok(Principal::new(Kind::Dns, *name)),
        ([], [_]) => Err("its DNS name has characters of no name"),
        ([], [_, ..]) => Err("it has more than one DNS name and no URI"),
        ([], []) => Err("it has neither a URI nor a DNS name"),
    }
}

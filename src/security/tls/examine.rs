//! What a certificate says, for people.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The names and the validity of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// DNS names and addresses.
    pub names: Vec<String>,
    /// The end of its validity.
    pub ends: SystemTime,
}

/// Returns the facts of the first certificate of a PEM file; `None` if there is none.
pub fn facts(content: &[u8]) -> Option<CertificateFacts> {
    let first = CertificateDer::pem_slice_iter(content).next()?.ok()?;
    let (_, parsed) = X509Certificate::from_der(&first).ok()?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|extension| &extension.value.general_names);
    Some(CertificateFacts { names: names.filter_map(name).collect(), ends: ends(&parsed) })
}

/// Returns the end of the validity of a certificate.
pub fn ends(certificate: &X509Certificate<'_>) -> SystemTime {
    let seconds = certificate.validity().not_after.timestamp();
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_string()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            Some(address.ok()?.to_string())
        }
        _ => None,
    }
}

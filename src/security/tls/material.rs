//! Settings of rustls from the contents of PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::{ClientCertificates, Configs, Error, Files};

/// Parses the files, and checks that key and certificate belong together.
pub(super) fn configs(files: &Files, contents: &[Vec<u8>]) -> Result<Configs, Error> {
    let content = |at: usize| contents.get(at).map(Vec::as_slice).unwrap_or_default();
    let chain = certificates(&files.certificate, content(0))?;
    let key = PrivateKeyDer::from_pem_slice(content(1))
        .map_err(|_| Error::invalid(&files.key, "it has no private key in PEM"))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = |demanded| verifier(files, demanded, content(2), &provider);
    let config = |verifier, protocols: &[&str]| {
        config(files, chain.clone(), key.clone_key(), verifier, protocols, &provider)
    };
    let clients = verifier(files.client_certificates)?;
    // Probes of Kubernetes have no certificate.
    let probes = verifier(match files.client_certificates {
        ClientCertificates::Required => ClientCertificates::Optional,
        other => other,
    })?;
    let grpc = config(clients.clone(), &["h2", "http/1.1"])?;
    Ok(Configs { grpc, ops: config(probes, &["http/1.1"])?, clients })
}

fn config(
    files: &Files,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    protocols: &[&str],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| Error::invalid(&files.certificate, error.to_string()))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let problem = match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("it is not the key of {}", files.certificate.display())
            }
            other => format!("it cannot be used with the certificate ({other})"),
        };
        Error::invalid(&files.key, problem)
    })?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    // A resumed session would keep the client certificate of an earlier one, even an expired one,
    // or one of an authority that was removed. Connections are few and long, so each proves itself.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Returns what verifies the certificates of clients; `None` if they are not asked for one.
fn verifier(
    files: &Files,
    demanded: ClientCertificates,
    authorities: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
    let path = match &files.client_ca {
        Some(path) if demanded != ClientCertificates::None => path,
        _ => return Ok(None),
    };
    let invalid = |error| Error::invalid(path, format!("it has an invalid one ({error})"));
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, authorities)? {
        roots.add(certificate).map_err(invalid)?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = match demanded {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        ClientCertificates::None | ClientCertificates::Required => builder,
    };
    let built = builder.build();
    built.map(Some).map_err(|error| Error::invalid(path, error.to_string()))
}

/// Returns the certificates of a file, which has one at least.
fn certificates(path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(Error::invalid(path, "it has no certificate in PEM")),
        Err(error) => Err(Error::invalid(path, format!("it is no PEM ({error})"))),
    }
}

//! TLS of the ports: certificates of the server, and which certificates of clients are accepted.

pub mod examine;
mod material;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio_rustls::TlsAcceptor;

use super::Error;
use super::reload::{FileSet, Reloaded};

/// What a client has to present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// Clients are not asked for a certificate.
    #[default]
    None,
    /// A client may present a certificate; it must be valid.
    Optional,
    /// A client must present a valid certificate.
    Required,
}

impl ClientCertificates {
    /// Every choice with its word in the configuration.
    pub const WORDS: [(&str, ClientCertificates); 3] = [
        ("none", ClientCertificates::None),
        ("optional", ClientCertificates::Optional),
        ("required", ClientCertificates::Required),
    ];
}

/// The files of the server's TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate of the server, with intermediate certificates.
    pub certificate: PathBuf,
    /// The key of that certificate.
    pub key: PathBuf,
    /// The authorities of client certificates.
    pub client_ca: Option<PathBuf>,
    /// Whether clients present a certificate.
    pub client_certificates: ClientCertificates,
}

/// The ports with TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// gRPC over HTTP/2, and gRPC-Web and Connect over HTTP/1.1 or HTTP/2.
    Grpc,
    /// Metrics and probes: HTTP/1.1. Probes have no certificates, so none is required here.
    Ops,
}

impl FileSet for Files {
    type Value = Configs;
    const NAME: &'static str = "TLS certificates";

    fn paths(&self) -> Vec<PathBuf> {
        let files = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()];
        files.into_iter().flatten().cloned().collect()
    }

    fn parse(&self, contents: &[Vec<u8>]) -> Result<Configs, Error> {
        material::configs(self, contents)
    }
}

/// The settings of both ports, made of the same files.
pub struct Configs {
    grpc: Arc<ServerConfig>,
    ops: Arc<ServerConfig>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// TLS of one port: a new connection uses the newest valid files, an open one keeps its own.
#[derive(Clone)]
pub struct Tls {
    files: Arc<Reloaded<Files>>,
    port: Port,
}

impl Tls {
    /// Returns the TLS of a port.
    pub fn new(files: Arc<Reloaded<Files>>, port: Port) -> Tls {
        Tls { files, port }
    }

    /// Returns whether the certificate of a client is valid now, by the newest authorities.
    pub fn trusts(&self, chain: &[CertificateDer<'static>]) -> bool {
        let configs = self.files.get();
        let (Some(verifier), Some((first, others))) = (&configs.clients, chain.split_first())
        else {
            return false;
        };
        verifier.verify_client_cert(first, others, UnixTime::now()).is_ok()
    }

    /// Returns the acceptor for a new connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        let configs = self.files.get();
        TlsAcceptor::from(match self.port {
            Port::Grpc => configs.grpc.clone(),
            Port::Ops => configs.ops.clone(),
        })
    }
}

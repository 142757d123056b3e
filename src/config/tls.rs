//! TLS of the ports, from flags, variables and the file.

use std::path::PathBuf;

use super::{CallerFlags, Callers, Error, File, StoreFlags};
use crate::security::tls::{ClientCertificates, Files};

/// Flags for TLS of the ports. Each is also a variable and a key of the file.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TlsFlags {
    /// Certificate of the server in PEM, with intermediate certificates; clients then connect to
    /// https://HOST:PORT. Read again when the file changes
    #[arg(long, env = "BELLWETHER_TLS_CERTIFICATE", value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// Key of that certificate, in PEM
    #[arg(long, env = "BELLWETHER_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// CA certificates in PEM that verify the certificates of clients
    #[arg(long, env = "BELLWETHER_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// Whether clients present a certificate: none, optional or required [default: required with
    /// --tls-client-ca, else none]
    #[arg(long, env = "BELLWETHER_TLS_CLIENT_CERTIFICATES", value_name = "WHETHER")]
    pub tls_client_certificates: Option<String>,
    /// Serve the ops port with TLS too; a client certificate is optional there
    #[arg(long, env = "BELLWETHER_OPS_TLS")]
    pub ops_tls: bool,
}

/// TLS of the ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsChoice {
    /// The files.
    pub files: Files,
    /// Whether the ops port has TLS too.
    pub with_ops: bool,
}

impl TlsChoice {
    /// Returns whether the server asks clients for a certificate, by which it identifies them.
    pub fn asks_clients(&self) -> bool {
        self.files.client_certificates != ClientCertificates::None
    }

    /// Returns what `Config::load` chooses with the same flags, without the other settings.
    ///
    /// # Errors
    /// If the file or the flags are wrong.
    pub fn load(
        store: &StoreFlags,
        tls: TlsFlags,
        callers: CallerFlags,
    ) -> Result<(Option<TlsChoice>, Callers), Error> {
        let mut file = File::of(store)?;
        Ok((file.tls(tls)?, file.callers(callers)?))
    }
}

impl Callers {
    /// Returns whether callers can prove who they are, by a token or by a certificate of `tls`.
    pub fn are_known(&self, tls: Option<&TlsChoice>) -> bool {
        self.has_tokens() || tls.is_some_and(TlsChoice::asks_clients)
    }
}

impl File {
    /// Returns the TLS of the ports; flags come before the file.
    pub(super) fn tls(&mut self, flags: TlsFlags) -> Result<Option<TlsChoice>, Error> {
        let incomplete = |given, lacking| Err(Error::TlsIncomplete(given, lacking));
        let certificate = flags.tls_certificate.or(self.tls_certificate.take());
        let key = flags.tls_key.or(self.tls_key.take());
        let client_ca = flags.tls_client_ca.or(self.tls_client_ca.take());
        let given = flags.tls_client_certificates.or(self.tls_client_certificates.take());
        let client_certificates = match given {
            Some(given) => client_certificates(given)?,
            None if client_ca.is_some() => ClientCertificates::Required,
            None => ClientCertificates::None,
        };
        let with_ops = flags.ops_tls || self.ops_tls;
        let asks = client_certificates != ClientCertificates::None;
        let (certificate, key) = match (certificate, key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => return incomplete("--tls-certificate", "--tls-key"),
            (None, Some(_)) => return incomplete("--tls-key", "--tls-certificate"),
            (None, None) if with_ops => return incomplete("--ops-tls", "--tls-certificate"),
            (None, None) if client_ca.is_some() => {
                return incomplete("--tls-client-ca", "--tls-certificate");
            }
            (None, None) if asks => {
                return incomplete("--tls-client-certificates", "--tls-certificate");
            }
            (None, None) => return Ok(None),
        };
        if asks && client_ca.is_none() {
            return incomplete("--tls-client-certificates", "--tls-client-ca");
        }
        let files = Files { certificate, key, client_ca, client_certificates };
        Ok(Some(TlsChoice { files, with_ops }))
    }
}

fn client_certificates(given: String) -> Result<ClientCertificates, Error> {
    let found = ClientCertificates::WORDS.into_iter().find(|(word, _)| *word == given);
    let (setting, known) = ("tls_client_certificates", "none, optional or required");
    found.map(|(_, choice)| choice).ok_or(Error::Unknown { setting, given, known })
}

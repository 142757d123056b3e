//! The credentials of a client, and the CA certificates that it trusts. Both are files, which may
//! be replaced at any time. A [`Watch`](crate::Watch) and a [`Worker`](crate::Worker) read the
//! certificates again for each new connection; a [`Client`](crate::Client) keeps those of its
//! start. A token that was read more than 10 s ago is read again at the next call.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use crate::error::Error;

/// How long a token is used before its file is read again. Kubernetes replaces a token long before
/// it expires.
const TOKEN_AGE_MAX: Duration = Duration::from_secs(10);

/// The files of a client. The default has none: a server with TLS is then verified by the
/// certificates of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// CA certificates in PEM that verify the server.
    pub ca: Option<PathBuf>,
    /// The certificate of this client, in PEM.
    pub certificate: Option<PathBuf>,
    /// The key of that certificate, in PEM.
    pub key: Option<PathBuf>,
    /// A file with one line: a token of Bellwether, or a JWT.
    pub token_file: Option<PathBuf>,
}

impl Security {
    /// Returns the files that `BELLWETHER_CA`, `BELLWETHER_CERT`, `BELLWETHER_CERT_KEY` and
    /// `BELLWETHER_TOKEN_FILE` name.
    pub fn from_env() -> Security {
        let file = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Security {
            ca: file("BELLWETHER_CA"),
            certificate: file("BELLWETHER_CERT"),
            key: file("BELLWETHER_CERT_KEY"),
            token_file: file("BELLWETHER_TOKEN_FILE"),
        }
    }

    /// Adds the TLS of an `https` address, and checks that no secret goes over a network without.
    pub(crate) fn apply(&self, url: &str, endpoint: Endpoint) -> Result<Endpoint, Error> {
        let invalid = |detail: String| Error::InvalidServer { url: url.to_string(), detail };
        if endpoint.uri().scheme_str() != Some("https") {
            return match self {
                Security { token_file: Some(_), .. } if !is_local(&endpoint) => {
                    Err(invalid("the token would be readable on the network; use https".into()))
                }
                Security { certificate: Some(_), .. } | Security { ca: Some(_), .. } => {
                    Err(invalid("certificates need an https address".into()))
                }
                _ => Ok(endpoint),
            };
        }
        let mut tls = ClientTlsConfig::new();
        tls = match &self.ca {
            Some(path) => tls.ca_certificate(Certificate::from_pem(read(path)?)),
            None => tls.with_native_roots(),
        };
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
            }
            (None, None) => {}
            _ => return Err(invalid("a certificate and its key belong together".into())),
        }
        let failed = |error| Error::unusable("the certificates cannot be used", &error);
        endpoint.tls_config(tls).map_err(failed)
    }
}

/// Returns whether the network between shows nothing of a call.
pub(crate) fn is_hidden(endpoint: &Endpoint) -> bool {
    endpoint.uri().scheme_str() == Some("https") || is_local(endpoint)
}

fn is_local(endpoint: &Endpoint) -> bool {
    let host = endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let shown = format!("cannot read {}", path.display());
    std::fs::read(path).map_err(|error| Error::unusable(&shown, &error))
}

/// Adds the token to each call. Clones share the token.
#[derive(Debug, Clone, Default)]
pub struct Bearer(Option<Arc<TokenSource>>);

#[derive(Debug)]
struct TokenSource {
    path: PathBuf,
    held: Mutex<Option<(Instant, MetadataValue<Ascii>)>>,
}

impl Bearer {
    pub(crate) fn new(security: &Security) -> Bearer {
        let held = Mutex::new(None);
        Bearer(security.token_file.clone().map(|path| Arc::new(TokenSource { path, held })))
    }

    /// Reads the token for the first time, so that a missing file is an error before the first
    /// call.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Some(token) => token.value().map(drop),
            None => Ok(()),
        }
    }
}

impl TokenSource {
    fn value(&self) -> Result<MetadataValue<Ascii>, Error> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, value)) = held.as_ref().filter(|(at, _)| at.elapsed() < TOKEN_AGE_MAX) {
            return Ok(value.clone());
        }
        let text = match (read(&self.path), held.as_ref()) {
            (Ok(text), _) => text,
            // The file may be missing while it is replaced, and the last token is valid for longer.
            (Err(_), Some((_, value))) => return Ok(value.clone()),
            (Err(error), None) => return Err(error),
        };
        let text = String::from_utf8_lossy(&text);
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", text.trim())
            .parse()
            .map_err(|error| Error::unusable("the token has invalid characters", &error))?;
        value.set_sensitive(true);
        *held = Some((Instant::now(), value.clone()));
        Ok(value)
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            let value =
                token.value().map_err(|error| Status::unauthenticated(error.to_string()))?;
            request.metadata_mut().insert("authorization", value);
        }
        crate::trace::inject(request.metadata_mut());
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(url: &str, security: &Security) -> String {
        let full = if url.contains("://") { url.to_string() } else { format!("http://{url}") };
        match security.apply(url, Endpoint::from_shared(full).unwrap()) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn no_token_goes_over_a_network_without_tls() {
        let token = Security { token_file: Some("t".into()), ..Security::default() };
        for url in ["http://127.0.0.1:1", "localhost:1", "http://[::1]:1"] {
            assert_eq!(apply(url, &token), "", "{url}");
        }
        for url in ["http://10.0.0.1:1", "bellwether:1", "http://localhost.example:1"] {
            assert!(apply(url, &token).contains("use https"), "{url}");
        }
    }

    #[test]
    fn certificates_need_https_and_each_other() {
        let ca = Security { ca: Some("ca".into()), ..Security::default() };
        assert!(apply("http://127.0.0.1:1", &ca).contains("need an https address"));
        assert!(apply("https://127.0.0.1:1", &ca).contains("cannot read ca"));
        let key = Security { key: Some("key".into()), ..Security::default() };
        let directory = tempfile::tempdir().unwrap();
        let ca = directory.path().join("ca.pem");
        std::fs::write(&ca, "").unwrap();
        let key = Security { ca: Some(ca), ..key };
        assert!(apply("https://h:1", &key).contains("belong together"));
    }

    #[test]
    fn the_token_is_one_line_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let security = Security { token_file: Some(path.clone()), ..Security::default() };
        let mut bearer = Bearer::new(&security);
        assert!(bearer.check().unwrap_err().to_string().contains("cannot read"));
        std::fs::write(&path, "bw_a_b\n").unwrap();
        let request = bearer.call(Request::new(())).unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer bw_a_b");
        std::fs::write(&path, "a\nb").unwrap();
        assert!(Bearer::new(&security).check().is_err());
    }
}

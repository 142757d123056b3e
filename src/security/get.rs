//! One GET over HTTP/1.1, with or without TLS: keys of an issuer, metrics of another server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue};
use http::{Request, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The longest answer that is read. A longer one comes from another program.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Get<'a> {
    /// An http or https URL.
    pub url: &'a Uri,
    /// Certificates in PEM that verify the server; `None`: those of the system.
    pub ca: Option<&'a Path>,
    /// A bearer token.
    pub token: Option<&'a str>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The URL is not usable.
    #[error("the URL needs http:// or https:// and a host")]
    Url,
    /// The file of the CA is not usable.
    #[error("{}: no certificate in PEM can be read from it", .0.display())]
    Ca(PathBuf),
    /// The token cannot be sent.
    #[error("the token has characters that a header cannot have")]
    Token,
    /// No connection, or none with TLS.
    #[error("connect: {0}")]
    Connect(std::io::Error),
    /// The exchange failed.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The answer is no 200. A redirect is not followed.
    #[error("the answer has the status {0}")]
    Status(http::StatusCode),
    /// The answer is longer than the limit, or broke off.
    #[error("the answer is cut off, or has more than {ANSWER_BYTES_MAX} bytes")]
    Body,
}

impl Get<'_> {
    /// Sends the request and returns the body of the answer. The caller sets the deadline.
    ///
    /// # Errors
    /// If the answer is not a complete 200.
    pub async fn send(self) -> Result<Bytes, GetError> {
        let host = self.url.host().ok_or(GetError::Url)?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_tls = match self.url.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(GetError::Url),
        };
        let port = self.url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((bare, port)).await.map_err(GetError::Connect)?;
        if !is_tls {
            return self.exchange(stream).await;
        }
        let name = ServerName::try_from(bare.to_string()).map_err(|_| GetError::Url)?;
        let connector = TlsConnector::from(Arc::new(self.tls()?));
        self.exchange(connector.connect(name, stream).await.map_err(GetError::Connect)?).await
    }

    async fn exchange(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Bytes, GetError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = self.request()?;
        let answer = async move {
            let answer = sender.send_request(request).await?;
            match answer.status() {
                http::StatusCode::OK => {
                    let body = to_bytes(Body::new(answer.into_body()), ANSWER_BYTES_MAX);
                    body.await.map_err(|_| GetError::Body)
                }
                status => Err(GetError::Status(status)),
            }
        };
        // The connection ends when `answer` drops the sender; its end does not change the answer.
        let (answer, _closed) = tokio::join!(answer, connection);
        answer
    }

    fn request(self) -> Result<Request<Body>, GetError> {
        let authority = self.url.authority().ok_or(GetError::Url)?;
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::get(path)
            .header(HOST, authority.as_str())
            .header(ACCEPT, "*/*")
            .body(Body::empty())
            .map_err(|_| GetError::Url)?;
        if let Some(token) = self.token {
            let mut value =
                HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| GetError::Token)?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        Ok(request)
    }

    fn tls(self) -> Result<ClientConfig, GetError> {
        let mut roots = RootCertStore::empty();
        match self.ca {
            Some(path) => {
                let certificates = CertificateDer::pem_file_iter(path).into_iter().flatten();
                let mut added = certificates.map(|one| roots.add(one.ok()?).ok());
                if !added.all(|one| one.is_some()) || roots.is_empty() {
                    return Err(GetError::Ca(path.to_path_buf()));
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| GetError::Connect(std::io::Error::other(error)))?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

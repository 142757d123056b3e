//! One call over HTTP/1.1, with or without TLS: a GET of keys or metrics, a POST of a message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
};
use http::request::Builder;
use http::{Method, Request, StatusCode, Uri};
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

/// The longest answer to a message that is read to its end.
const IGNORED_BYTES_MAX: usize = 64 << 10;

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

/// A message to another server.
#[derive(Debug, Clone)]
pub struct Post<'a> {
    /// An http or https URL.
    pub url: &'a Uri,
    /// What verifies the server; see [`roots`].
    pub tls: &'a Arc<ClientConfig>,
    /// A bearer token.
    pub token: Option<&'a str>,
    /// Headers besides.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body, JSON.
    pub body: Bytes,
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
    Status(StatusCode),
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
        let request = request(Method::GET, self.url, self.token)?.body(Body::empty());
        let request = request.map_err(|_| GetError::Url)?;
        let tls = match self.url.scheme_str() {
            Some("https") => Some(roots(self.ca)?),
            _ => None,
        };
        let (status, body) = call(self.url, tls.as_ref(), request, ANSWER_BYTES_MAX).await?;
        match status {
            StatusCode::OK => body,
            status => Err(GetError::Status(status)),
        }
    }
}

impl Post<'_> {
    /// Sends the message and returns the status of the answer, whose body counts for nothing. The
    /// caller sets the deadline.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn send(self) -> Result<StatusCode, GetError> {
        let mut request = request(Method::POST, self.url, self.token)?
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, self.body.len());
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers);
        }
        let request = request.body(Body::from(self.body)).map_err(|_| GetError::Url)?;
        let (status, _body) = call(self.url, Some(self.tls), request, IGNORED_BYTES_MAX).await?;
        Ok(status)
    }
}

/// Makes a call. Returns the status of the answer, and its body if it is complete.
async fn call(
    url: &Uri,
    tls: Option<&Arc<ClientConfig>>,
    request: Request<Body>,
    bytes_max: usize,
) -> Result<(StatusCode, Result<Bytes, GetError>), GetError> {
    let host = url.host().ok_or(GetError::Url)?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_tls = match url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(GetError::Url),
    };
    let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((bare, port)).await.map_err(GetError::Connect)?;
    let Some(tls) = tls.filter(|_| is_tls) else {
        return exchange(stream, request, bytes_max).await;
    };
    let name = ServerName::try_from(bare.to_string()).map_err(|_| GetError::Url)?;
    let connector = TlsConnector::from(tls.clone());
    let stream = connector.connect(name, stream).await.map_err(GetError::Connect)?;
    exchange(stream, request, bytes_max).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Body>,
    bytes_max: usize,
) -> Result<(StatusCode, Result<Bytes, GetError>), GetError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answer = async move {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = to_bytes(Body::new(answer.into_body()), bytes_max).await;
        Ok((status, body.map_err(|_| GetError::Body)))
    };
    // The connection ends when `answer` drops the sender; its end does not change the answer.
    let (answer, _closed) = tokio::join!(answer, connection);
    answer
}

fn request(method: Method, url: &Uri, token: Option<&str>) -> Result<Builder, GetError> {
    let authority = url.authority().ok_or(GetError::Url)?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority.as_str())
        .header(ACCEPT, "*/*");
    if let Some(token) = token {
        let mut value =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| GetError::Token)?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    Ok(request)
}

/// Returns what verifies servers: the certificates of a file, or those of the system.
///
/// # Errors
/// If the file has none.
pub fn roots(ca: Option<&Path>) -> Result<Arc<ClientConfig>, GetError> {
    let mut roots = RootCertStore::empty();
    match ca {
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
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

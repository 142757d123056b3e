//! One connection to one server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tonic::codegen::http::uri::PathAndQuery;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::error::Error;
use crate::proto::Unary;
use crate::proto::health::health_client::HealthClient;
use crate::proto::v1::app_data_service_client::AppDataServiceClient;
use crate::proto::v1::application_service_client::ApplicationServiceClient;
use crate::proto::v1::leader_service_client::LeaderServiceClient;
use crate::proto::v1::operation_service_client::OperationServiceClient;
use crate::proto::v1::report_service_client::ReportServiceClient;
use crate::proto::v1::server_service_client::ServerServiceClient;
use crate::proto::v1::worker_service_client::WorkerServiceClient;
use crate::security::{Bearer, Security, is_hidden};

/// The port of the calls, where `bellwether serve` listens.
const DEFAULT_PORT: u16 = 50051;

/// A server on the same network accepts a connection within milliseconds; three lost packets fit.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A call that takes longer than this has met a fault, not load: commits take milliseconds.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// Detects a peer that vanished within 14 s, before a watch times out after 15 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(4);

/// A small window for each stream and a large one for the connection, so that one stream that is
/// not read cannot use up the budget for small frames and break the connection for all others.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// Metadata of a read that the server answers from memory because its store is unreachable.
const AS_OF: &str = "bellwether-as-of";
/// Metadata of the same in a relay: the upstreams that are away.
const AS_OF_UPSTREAM: &str = "bellwether-as-of-upstream";

/// The transport of the stubs: a connection, and the token of each call.
pub type Transport = InterceptedService<Channel, Bearer>;

/// What an answer from memory says of its age.
#[derive(Debug, Clone)]
struct AsOf {
    since: String,
    upstream: Option<String>,
}

/// A connection to a server. Cheap to clone: clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    endpoint: Endpoint,
    channel: Channel,
    security: Security,
    bearer: Bearer,
    deadline: Duration,
    as_of: Arc<Mutex<Option<AsOf>>>,
}

impl Client {
    /// Connects to `url` (`http://HOST:PORT` or `https://HOST:PORT`; without a scheme it is http,
    /// without a port it is 50051).
    ///
    /// # Errors
    /// [`Error::InvalidServer`] if `url` is not a valid address, [`Error::Unreachable`] if no
    /// server accepts the connection within 3 s.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::connect_with(url, Security::default()).await
    }

    /// Connects with certificates or a token.
    ///
    /// # Errors
    /// Those of [`Client::connect`], and [`Error::Unusable`] if a file cannot be used.
    pub async fn connect_with(url: &str, security: Security) -> Result<Client, Error> {
        Client::connect_within(url, security, CONNECT_TIMEOUT).await
    }

    /// Connects with another time limit.
    pub(crate) async fn connect_within(
        url: &str,
        security: Security,
        timeout: Duration,
    ) -> Result<Client, Error> {
        let endpoint = security.apply(url, endpoint(url)?)?.connect_timeout(timeout);
        let bearer = Bearer::new(&security);
        bearer.check()?;
        let url = with_port(url);
        let channel = endpoint.connect().await.map_err(|cause| Error::unreachable(&url, &cause))?;
        let deadline = CALL_DEADLINE;
        Ok(Client { url, endpoint, channel, security, bearer, deadline, as_of: Arc::default() })
    }

    /// Returns a client that connects at its first call, for a server that is not there yet.
    ///
    /// # Errors
    /// Those of [`Client::connect_with`] that no server causes.
    pub fn connect_lazily(url: &str, security: Security) -> Result<Client, Error> {
        let endpoint = security.apply(url, endpoint(url)?)?.connect_timeout(CONNECT_TIMEOUT);
        let bearer = Bearer::new(&security);
        bearer.check()?;
        let channel = endpoint.connect_lazy();
        let (url, deadline) = (with_port(url), CALL_DEADLINE);
        Ok(Client { url, endpoint, channel, security, bearer, deadline, as_of: Arc::default() })
    }

    /// Sets the deadline of each call on this connection. The default is 30 s.
    pub fn with_deadline(self, deadline: Duration) -> Client {
        Client { deadline, ..self }
    }

    /// Returns the deadline of a call.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns a client of the same server over a new connection, made at the first call. It uses
    /// certificates that were replaced in the meantime; if they are invalid, the previous ones.
    pub fn reconnected(&self) -> Client {
        let renewed = endpoint(&self.url).and_then(|it| self.security.apply(&self.url, it));
        let renewed = renewed.map(|endpoint| endpoint.connect_timeout(CONNECT_TIMEOUT));
        let endpoint = renewed.unwrap_or_else(|_| self.endpoint.clone());
        let channel = endpoint.connect_lazy();
        Client { endpoint, channel, ..self.clone() }
    }

    /// Returns the transport of the stubs, for calls of a method that has none.
    pub fn transport(&self) -> Transport {
        InterceptedService::new(self.channel.clone(), self.bearer.clone())
    }

    /// Returns whether the network does not show a token of this connection: it is encrypted, or
    /// stays on this machine.
    pub fn hides_tokens(&self) -> bool {
        is_hidden(&self.endpoint)
    }

    /// Returns a client whose server does not exist.
    #[cfg(test)]
    pub(crate) fn mk_lazy() -> Client {
        let url = "http://127.0.0.1:1";
        let endpoint = endpoint(url).expect("an address");
        let channel = endpoint.connect_lazy();
        let (security, bearer) = (Security::default(), Bearer::default());
        let (url, deadline) = (url.to_string(), CALL_DEADLINE);
        Client { url, channel, endpoint, security, bearer, deadline, as_of: Arc::default() }
    }

    /// Returns the address of the server, with its port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the stub for the calls of readers and operators.
    pub fn applications(&self) -> ApplicationServiceClient<Transport> {
        ApplicationServiceClient::new(self.transport())
    }

    /// Returns the stub for the sessions of workers.
    pub fn workers(&self) -> WorkerServiceClient<Transport> {
        WorkerServiceClient::new(self.transport())
    }

    /// Returns the stub for health probes by `grpc.health.v1`.
    pub fn health(&self) -> HealthClient<Transport> {
        HealthClient::new(self.transport())
    }

    /// Returns the stub for operations.
    pub fn operations(&self) -> OperationServiceClient<Transport> {
        OperationServiceClient::new(self.transport())
    }

    /// Returns the stub for units that want to lead, and for operators who decide that.
    pub fn leaders(&self) -> LeaderServiceClient<Transport> {
        LeaderServiceClient::new(self.transport())
    }

    /// Returns the stub for the data that the leader of an application keeps.
    pub fn app_data(&self) -> AppDataServiceClient<Transport> {
        AppDataServiceClient::new(self.transport())
    }

    /// Returns the stub for the calls of workers.
    pub fn reports(&self) -> ReportServiceClient<Transport> {
        ReportServiceClient::new(self.transport())
    }

    /// Returns the stub for information about the server itself.
    pub fn server(&self) -> ServerServiceClient<Transport> {
        ServerServiceClient::new(self.transport())
    }

    /// Makes a unary call with the deadline.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn call<R: Unary>(&self, message: R) -> Result<R::Answer, Error> {
        let mut grpc = tonic::client::Grpc::new(self.transport());
        let call = async {
            let not_ready =
                |error| tonic::Status::unknown(format!("Service was not ready: {error}"));
            grpc.ready().await.map_err(not_ready)?;
            let path = PathAndQuery::from_static(R::PATH);
            grpc.unary(self.request(message), path, ProstCodec::default()).await
        };
        self.answer(call.await)
    }

    /// Returns a unary request with the deadline.
    pub fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(self.deadline);
        request
    }

    /// Decodes the answer of a call made with one of the stubs above.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub fn answer<T>(&self, result: Result<tonic::Response<T>, tonic::Status>) -> Result<T, Error> {
        let response = result.map_err(|status| self.error(status))?;
        let metadata = response.metadata();
        let text = |name| metadata.get(name).and_then(|value| value.to_str().ok());
        let upstream = text(AS_OF_UPSTREAM).map(str::to_string);
        *self.lock_as_of() = text(AS_OF).map(|since| AsOf { since: since.to_string(), upstream });
        Ok(response.into_inner())
    }

    /// Returns the time (RFC 3339) since when the server has had no contact with its store, if the
    /// last answer on this connection was from memory.
    pub fn as_of(&self) -> Option<String> {
        self.lock_as_of().as_ref().map(|as_of| as_of.since.clone())
    }

    /// Returns the addresses of the upstreams with which a relay has had no contact since then.
    pub fn as_of_upstream(&self) -> Option<String> {
        self.lock_as_of().as_ref().and_then(|as_of| as_of.upstream.clone())
    }

    fn lock_as_of(&self) -> MutexGuard<'_, Option<AsOf>> {
        self.as_of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes the status with which a call or a stream of this client ended.
    pub fn error(&self, status: tonic::Status) -> Error {
        match Error::is_timeout(&status) {
            true => Error::Silent { url: self.url.clone(), after: self.deadline },
            false => Error::from_status(&self.url, status),
        }
    }
}

/// Returns the address with the port of the calls, if it names none: the ports of the web, 80 and
/// 443, are never meant.
fn with_port(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    if authority.is_empty() || after_host.contains(':') {
        return url.to_string();
    }
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{authority}:{DEFAULT_PORT}{path}")
}

/// Parses an address.
pub(crate) fn endpoint(url: &str) -> Result<Endpoint, Error> {
    let invalid =
        |detail: &str| Error::InvalidServer { url: url.to_string(), detail: detail.to_string() };
    if !url.contains('[') && url.contains("::") {
        return Err(invalid("an address of IPv6 is in brackets, as [::1]"));
    }
    let full = match url.split_once("://") {
        Some(("http" | "https", _)) => with_port(url),
        Some((scheme, _)) => return Err(invalid(&format!("`{scheme}` is no known scheme"))),
        None => format!("http://{}", with_port(url)),
    };
    let endpoint = Endpoint::from_shared(full).map_err(|_| invalid("it does not parse"))?;
    let host = endpoint.uri().host().unwrap_or_default();
    if host.is_empty() {
        return Err(invalid("it names no host"));
    }
    if endpoint.uri().port_u16().is_none_or(|port| port == 0) {
        return Err(invalid("its port is no number from 1 to 65535"));
    }
    Ok(endpoint
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_an_address_with_or_without_scheme() {
        for url in ["http://127.0.0.1:50051", "localhost:50051", "https://[::1]:50051"] {
            assert!(endpoint(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn an_address_without_a_port_is_that_of_the_calls() {
        for (url, wanted) in [
            ("localhost", "localhost:50051"),
            ("http://localhost", "http://localhost:50051"),
            ("https://h/", "https://h:50051/"),
            ("http://[::1]", "http://[::1]:50051"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("h:443", "h:443"),
            ("http://", "http://"),
        ] {
            assert_eq!(with_port(url), wanted);
        }
        let endpoint = endpoint("http://localhost").expect("an address");
        assert_eq!(endpoint.uri().port_u16(), Some(50051));
    }

    #[test]
    fn refuses_what_is_no_address() {
        for (url, detail) in [
            ("redis://h:1", "`redis` is no known scheme"),
            ("http://a b", "it does not parse"),
            ("h:", "its port is no number from 1 to 65535"),
            ("http://h:99999", "its port is no number from 1 to 65535"),
            ("::1", "an address of IPv6 is in brackets, as [::1]"),
        ] {
            let error = endpoint(url).expect_err(url).to_string();
            assert_eq!(
                error,
                format!("`{url}` is not the address of a server: {detail}; write http://HOST:PORT")
            );
        }
    }

    #[tokio::test]
    async fn a_missing_server_is_named_in_the_error() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", free.local_addr().expect("bound"));
        drop(free);
        let error = Client::connect(&url).await.expect_err("nobody listens");
        assert_eq!(
            error.to_string(),
            format!("cannot reach {url}: connection refused; is `bellwether serve` running there?")
        );
    }
}

//! Makes one connection to one address.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, TlsCertificates,
};

use super::error::LinkError;
use super::master::{Identity, Master};
use super::options::Options;
use super::target::{Address, Target, TlsFiles};

/// The maximum number of pipelines that wait for the socket. With the default of the `redis` crate,
/// 50, callers would wait for each other. Beyond this limit callers wait.
const QUEUE_MAX: usize = 1024;

/// The keepalive of a connection without traffic. A peer that lost its power sends nothing, so the
/// kernel probes it after this time, every `KEEPALIVE_INTERVAL`, and gives up after
/// `KEEPALIVE_RETRIES`.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_RETRIES: u32 = 3;

/// The time in which the kernel tries to deliver sent data; the default is a quarter of an hour.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes connections as the target describes.
pub(super) struct Dialer {
    pub(super) target: Target,
    pub(super) options: Options,
    connections: AtomicU64,
}

/// The user of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Login {
    /// The user and database of the URL.
    Store,
    /// The user of the URL, without a database: a Sentinel has none.
    Sentinel,
    /// No user: Sentinels often know no users.
    Anonymous,
}

impl Dialer {
    pub(super) fn new(target: Target, options: Options) -> Dialer {
        if target.tls.is_some() {
            // Another part of the process may have installed a provider, which serves as well.
            rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        }
        Dialer { target, options, connections: AtomicU64::new(0) }
    }

    /// Returns the time-outs of the options, for a connection on which no command blocks.
    pub(super) fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.options.connect_timeout))
            .set_response_timeout(Some(self.options.response_timeout))
            .set_pipeline_buffer_size(QUEUE_MAX)
    }

    /// Connects to the server at an address, whatever its role is.
    pub(super) async fn open(
        &self,
        address: &Address,
        login: Login,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, LinkError> {
        let client = self.client(address, login)?;
        let opened = client.get_multiplexed_async_connection_with_config(config).await;
        opened.map_err(|error| LinkError::of_connecting(&address.to_string(), &error))
    }

    /// Connects, and checks that the server is a master.
    pub(super) async fn open_master(
        &self,
        address: &Address,
        config: &AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, Master), LinkError> {
        let mut connection = self.open(address, Login::Store, config).await?;
        // The connection itself may have no timeout.
        let asked = Identity::ask(&mut connection, address, Identity::AT_FIRST);
        let identity = match tokio::time::timeout(self.options.response_timeout, asked).await {
            Ok(Err(LinkError::Ambiguous { .. })) | Err(_) => {
                return Err(LinkError::away(format!("no answer from {address} in time")));
            }
            Ok(identity) => identity?,
        };
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((connection, identity.into_master(address, &self.target.topology, number)?))
    }

    fn client(&self, address: &Address, login: Login) -> Result<Client, LinkError> {
        let refused = |error: redis::RedisError| {
            LinkError::refused(format!("the settings for {address} cannot be used ({error})"))
        };
        let (host, port) = (address.host.clone(), address.port);
        let place = match &self.target.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_RETRIES);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive)
            .set_user_timeout(USER_TIMEOUT);
        let info = place.into_connection_info().map_err(refused)?;
        let info = info.set_tcp_settings(tcp).set_redis_settings(self.greeting(login));
        match &self.target.tls {
            None => Client::open(info).map_err(refused),
            Some(files) => Client::build_with_tls(info, certificates(files)?).map_err(refused),
        }
    }

    /// Returns the settings of the handshake. RESP3 reports a lost connection even if no request is
    /// pending. The name of the client library is left out, because servers before 7.2 count it as
    /// an error.
    fn greeting(&self, login: Login) -> RedisConnectionInfo {
        let mut greeting = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_skip_set_lib_name();
        if login == Login::Store {
            greeting = greeting.set_db(self.target.database);
        }
        if login != Login::Anonymous {
            if let Some(user) = &self.target.user {
                greeting = greeting.set_username(user);
            }
            if let Some(password) = &self.target.password {
                greeting = greeting.set_password(password.expose());
            }
        }
        greeting
    }
}

fn certificates(files: &TlsFiles) -> Result<TlsCertificates, LinkError> {
    let client_tls = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
        _ => None,
    };
    Ok(TlsCertificates { client_tls, root_cert: files.ca.as_deref().map(read).transpose()? })
}

fn read(path: &Path) -> Result<Vec<u8>, LinkError> {
    std::fs::read(path)
        .map_err(|error| LinkError::refused(format!("cannot read {} ({error})", path.display())))
}

//! The identity of a worker, and the addresses of its servers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::connection::CONNECT_TIMEOUT;
use crate::proto::v1::Hello;
use crate::security::Security;

/// Well below the 30 s that Kubernetes gives a container to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The identity of a worker, the addresses of its servers, and its time limits.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) servers: Vec<String>,
    pub(super) namespace: String,
    pub(super) application: String,
    pub(super) unit: String,
    pub(super) stateless: bool,
    pub(super) incarnation: Option<u64>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) security: Security,
    pub(super) connect_timeout: Duration,
    pub(super) shutdown_timeout: Duration,
}

impl Options {
    /// Creates the options of the unit `unit` of `application` (as `web/0` of `web`), with a server
    /// at `server` (`http://HOST:PORT`; the scheme may be left out).
    pub fn new(server: &str, application: &str, unit: &str) -> Options {
        Options {
            servers: vec![server.to_string()],
            namespace: String::new(),
            application: application.to_string(),
            unit: unit.to_string(),
            stateless: false,
            incarnation: None,
            labels: BTreeMap::new(),
            security: Security::default(),
            connect_timeout: CONNECT_TIMEOUT,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
        }
    }

    /// Adds a replica: if one cannot be reached, the next is tried.
    #[must_use]
    pub fn server(mut self, server: &str) -> Options {
        self.servers.push(server.to_string());
        self
    }

    /// Sets certificates and the token. They are read again at each connection.
    #[must_use]
    pub fn security(mut self, security: Security) -> Options {
        self.security = security;
        self
    }

    /// Sets the namespace of the application. The default is `default`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Options {
        self.namespace = namespace.to_string();
        self
    }

    /// Sets whether the unit has a new name each time it is replaced, like the pod of a deployment.
    #[must_use]
    pub fn stateless(mut self, stateless: bool) -> Options {
        self.stateless = stateless;
        self
    }

    /// Continues this incarnation of the unit in the first session. Without it, a new one begins.
    #[must_use]
    pub fn incarnation(mut self, incarnation: u64) -> Options {
        self.incarnation = Some(incarnation);
        self
    }

    /// Adds a label of the unit: at most 64, keys and values at most 63 bytes each.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Options {
        self.labels.insert(key.to_string(), value.to_string());
        self
    }

    /// Sets how long a server may take to accept a connection. Default 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Options {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long [`Worker::shutdown`](super::Worker::shutdown) and a drop may take.
    /// Default 5 s.
    #[must_use]
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Options {
        self.shutdown_timeout = timeout;
        self
    }

    pub(super) fn hello(&self, incarnation: Option<u64>) -> Hello {
        Hello {
            namespace: self.namespace.clone(),
            application: self.application.clone(),
            unit: self.unit.clone(),
            incarnation,
            stateless: self.stateless,
            labels: self.labels.clone(),
        }
    }
}

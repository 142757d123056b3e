//! The identity of a server.

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};

use super::error::{LinkError, of_reply};
use super::info::InfoFields;
use super::target::{Address, Topology};

/// A master as it was when this connection was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// `host:port`.
    pub address: String,
    /// The id of the process. It changes with a restart.
    pub run_id: String,
    /// The id of the replication history. It changes with a failover, and with a restart without
    /// data. It also changes without data loss under the same `connection`: a master renames its
    /// history when its first replica connects, and an hour after the last one left.
    pub replid: String,
    /// The number of the connection, which identifies it among all connections.
    pub connection: u64,
}

impl Master {
    /// Returns whether both are the same process with the same replication history.
    pub fn is_same(&self, other: &Master) -> bool {
        let Master { address, run_id, replid, .. } = self;
        (address, run_id, replid) == (&other.address, &other.run_id, &other.replid)
    }
}

/// The fields that a server reports about itself.
#[derive(Debug)]
pub(super) struct Identity(InfoFields);

impl Identity {
    /// The sections of `INFO` that a link needs once.
    pub(super) const AT_FIRST: &[&str] = &["server", "replication", "persistence"];
    /// The section of `INFO` that may change while the connection lives.
    pub(super) const AGAIN: &[&str] = &["replication"];

    /// Reads sections of `INFO`, which also has the role: `ROLE` would need one more right. Returns
    /// `Ambiguous` if there is no answer in time.
    pub(super) async fn ask(
        connection: &mut MultiplexedConnection,
        address: &Address,
        sections: &[&str],
    ) -> Result<Identity, LinkError> {
        let address = address.to_string();
        let mut pipeline = Pipeline::new();
        for section in sections {
            pipeline.cmd("INFO").arg(section);
        }
        let replies = connection.send_packed_commands(&pipeline, 0, sections.len()).await;
        let replies = replies.map_err(|error| match error.is_timeout() {
            true => LinkError::ambiguous(&address, &error),
            false => LinkError::of_connecting(&address, &error),
        })?;
        let mut fields = InfoFields::default();
        for reply in replies {
            if let Value::ServerError(error) = &reply {
                return Err(of_reply(&address, error.code(), error.details().unwrap_or("")));
            }
            let text: String = redis::from_redis_value(reply)
                .map_err(|error| LinkError::of_connecting(&address, &error.into()))?;
            fields.0.extend(InfoFields::of_lines(&text).0);
        }
        Ok(Identity(fields))
    }

    /// Returns the master with this identity.
    ///
    /// # Errors
    ///
    /// `Refused` if the server is of another kind than the URL says, and `Away` if it is loading.
    /// For a replica: `Refused` if the URL names the server, because an operator chose it,
    /// otherwise `Away`.
    pub(super) fn into_master(
        self,
        address: &Address,
        topology: &Topology,
        connection: u64,
    ) -> Result<Master, LinkError> {
        self.check_mode(address, topology)?;
        if !self.is_master() {
            let reason = format!(
                "{address} is a replica of {}:{}, which cannot be written to; --store must lead to \
                 the master",
                self.0.text("master_host"),
                self.0.text("master_port")
            );
            return Err(match topology {
                Topology::Standalone { .. } => LinkError::Refused { reason },
                Topology::Sentinel { .. } | Topology::Cluster { .. } => LinkError::Away { reason },
            });
        }
        if self.0.text("loading") == "1" {
            return Err(LinkError::away(format!("{address} is loading its data")));
        }
        Ok(Master {
            address: address.to_string(),
            run_id: self.0.text("run_id").to_string(),
            replid: self.replid().to_string(),
            connection,
        })
    }

    /// Returns whether the server takes writes itself.
    pub(super) fn is_master(&self) -> bool {
        self.0.text("role") == "master"
    }

    /// Returns the id of the replication history; see [`Master::replid`].
    pub(super) fn replid(&self) -> &str {
        self.0.text("master_replid")
    }

    /// Returns whether this history continues no other one. Then a new id is only a new name.
    pub(super) fn has_no_predecessor(&self) -> bool {
        let before = self.0.text("master_replid2");
        !before.is_empty() && before.bytes().all(|byte| byte == b'0')
    }

    fn check_mode(&self, address: &Address, topology: &Topology) -> Result<(), LinkError> {
        // Valkey has a setting to report another mode.
        let mode = [self.0.text("redis_mode"), self.0.text("server_mode")].concat();
        let is_cluster = matches!(topology, Topology::Cluster { .. });
        let reason = match mode.as_str() {
            "sentinel" => format!("{address} is a Sentinel; use redis+sentinel:// with its master"),
            "cluster" if !is_cluster => {
                format!("{address} is part of a cluster; use redis+cluster://")
            }
            "standalone" if is_cluster => {
                format!("{address} is not part of a cluster; use redis://")
            }
            _ => return Ok(()),
        };
        Err(LinkError::Refused { reason })
    }
}

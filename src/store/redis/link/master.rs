//! The identity of a server.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};

use super::error::{LinkError, of_reply};
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
    /// The length of that history, in bytes.
    pub replication_offset: u64,
    /// The version, as in 7.0.15. Valkey reports the version of Redis that it is compatible with.
    pub version: (u32, u32, u32),
    /// The number of the connection, which identifies it among all connections.
    pub connection: u64,
}

/// The fields that a server reports about itself.
#[derive(Debug)]
pub(super) struct Identity {
    fields: BTreeMap<String, String>,
}

impl Identity {
    /// Reads what a link needs once. The role comes from `INFO` instead of `ROLE`, which would need
    /// one more right.
    pub(super) async fn ask(
        connection: &mut MultiplexedConnection,
        address: &Address,
    ) -> Result<Identity, LinkError> {
        Identity::ask_for(connection, address, &["server", "replication", "persistence"]).await
    }

    /// Reads what may change while the connection lives. Returns `Ambiguous` if there is no answer
    /// in time.
    pub(super) async fn ask_again(
        connection: &mut MultiplexedConnection,
        address: &Address,
    ) -> Result<Identity, LinkError> {
        Identity::ask_for(connection, address, &["replication"]).await
    }

    async fn ask_for(
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
        let mut fields = BTreeMap::new();
        for reply in replies {
            if let Value::ServerError(error) = &reply {
                return Err(of_reply(&address, error.code(), error.details().unwrap_or("")));
            }
            let text: String = redis::from_redis_value(reply)
                .map_err(|error| LinkError::of_connecting(&address, &error.into()))?;
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            fields.extend(lines.map(|(name, value)| (name.to_string(), value.to_string())));
        }
        Ok(Identity { fields })
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
                self.field("master_host"),
                self.field("master_port")
            );
            return Err(match topology {
                Topology::Standalone { .. } => LinkError::Refused { reason },
                Topology::Sentinel { .. } | Topology::Cluster { .. } => LinkError::Away { reason },
            });
        }
        if self.field("loading") == "1" {
            return Err(LinkError::away(format!("{address} is loading its data")));
        }
        Ok(Master {
            address: address.to_string(),
            run_id: self.field("run_id").to_string(),
            replid: self.replid().to_string(),
            replication_offset: self.field("master_repl_offset").parse().unwrap_or(0),
            version: version(self.field("redis_version")),
            connection,
        })
    }

    /// Returns whether the server takes writes itself.
    pub(super) fn is_master(&self) -> bool {
        self.field("role") == "master"
    }

    /// Returns the id of the replication history; see [`Master::replid`].
    pub(super) fn replid(&self) -> &str {
        self.field("master_replid")
    }

    /// Returns whether this history continues no other one. Then a new id is only a new name.
    pub(super) fn has_no_predecessor(&self) -> bool {
        let before = self.field("master_replid2");
        !before.is_empty() && before.bytes().all(|byte| byte == b'0')
    }

    fn check_mode(&self, address: &Address, topology: &Topology) -> Result<(), LinkError> {
        // Valkey has a setting to report another mode.
        let mode = [self.field("redis_mode"), self.field("server_mode")].concat();
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

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

fn version(text: &str) -> (u32, u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_far_as_they_go() {
        assert_eq!(version("7.0.15"), (7, 0, 15));
        assert_eq!(version("8.0-rc1"), (8, 0, 0));
        assert_eq!(version(""), (0, 0, 0));
    }
}

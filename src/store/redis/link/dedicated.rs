//! A connection for one task that blocks on it.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::error::LinkError;
use super::master::Master;
use super::single::MasterLink;

/// A separate connection to a master for blocking reads, which would block all other users of the
/// shared connection. It has no response time-out. Dropping it ends the blocked read.
pub struct Dedicated {
    /// The connection. [`query`](Dedicated::query) also notices a dead peer.
    pub connection: MultiplexedConnection,
    /// The master, with the number of the connection of [`Links`](super::Links) to the same master.
    pub master: Master,
    link: Arc<MasterLink>,
}

impl Dedicated {
    pub(super) async fn open(link: Arc<MasterLink>) -> Result<Dedicated, LinkError> {
        let live = link.ready().await?;
        let config = link.dialer.config().set_response_timeout(None);
        let (connection, found) = link.dialer.open_master(&live.address, &config).await?;
        if !found.is_same(&live.master) {
            let reason = format!("{} is another server than a moment ago", live.address);
            return Err(LinkError::Away { reason });
        }
        Ok(Dedicated { connection, master: live.master.clone(), link })
    }

    /// Runs one command, for as long as it takes; an error reply is a value.
    ///
    /// # Errors
    ///
    /// `Ambiguous` if this connection broke, or if the link lost its connection to the same master,
    /// so that this one cannot be trusted either. The connection is of no use then.
    pub async fn query(&mut self, command: &Cmd) -> Result<Value, LinkError> {
        let address = &self.master.address;
        tokio::select! {
            answer = self.connection.send_packed_command(command) => {
                answer.map_err(|error| LinkError::ambiguous(address, &error))
            }
            () = self.link.lost(self.master.connection) => Err(LinkError::Ambiguous {
                reason: format!("the connection to {address} was given up before the answer"),
            }),
        }
    }
}

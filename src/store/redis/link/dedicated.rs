//! A connection for those who wait on it.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::error::LinkError;
use super::master::Master;
use super::single::Link;

/// A connection of its own to a master, for reads that block: on the shared one they would hold up
/// everybody. It has no response time-out. Dropping it ends what waits on it.
pub struct Dedicated {
    /// The connection. [`query`](Dedicated::query) is the way to use it that notices a dead peer.
    pub connection: MultiplexedConnection,
    /// Where it leads, with the number of the connection of [`Links`](super::Links) that vouches
    /// for it.
    pub master: Master,
    link: Arc<Link>,
}

impl Dedicated {
    pub(super) async fn open(link: Arc<Link>) -> Result<Dedicated, LinkError> {
        let live = link.ready().await?;
        let config = link.dialer.config().set_response_timeout(None);
        let (connection, found) = link.dialer.open_master(&live.address, &config).await?;
        if found.run_id != live.master.run_id || found.replid != live.master.replid {
            let reason = format!("{} is another server than a moment ago", live.address);
            return Err(LinkError::Away { reason });
        }
        Ok(Dedicated { connection, master: live.master.clone(), link })
    }

    /// Runs one command, for as long as it takes; an error reply is a value.
    ///
    /// # Errors
    ///
    /// `Ambiguous` when this connection broke, or when the link lost its own to the same master and
    /// so this one cannot be trusted either. Then it is of no more use.
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

//! A small Redis: the commands that the store uses, in memory and in simulated time.
//!
//! ```text
//!  connection --pipeline--> Server (a master or a replica) --> command/ --> Keyspace
//!                             | EVALSHA --> Scripts (Lua 5.1, the committed .lua files)
//!                             '-- effects --> Deployment --> replicas, append-only file
//! ```
//!
//! It executes the scripts of the store themselves, so there is no second copy of the protocol. A
//! script takes effect at one moment, as in Redis. Replicas get the effects of the commands, each
//! replica with a delay of its own. A failover gives the role of the master to one of them, with
//! all that had reached it and nothing else. A restart keeps what the append-only file had on disk.
//!
//! `tests` compares replies with those of a real `redis-server`.

mod command;
mod data;
mod deployment;
mod node;
mod reply;
mod script;
mod server;
mod slots;
mod state;

#[cfg(test)]
mod tests;

pub use data::Object;
pub use deployment::{Answer, Connection, Deployment, Nodes};
pub use node::NodeId;
pub use reply::Reply;
pub use slots::{ShardId, slot};
pub use state::State;

/// The bytes of an argument, a key or a value.
pub type Text = Vec<u8>;
/// A command: its name and its arguments.
pub type Command = Vec<Text>;
/// Sees each call of a script: the server with its state after it, the command, and the reply.
pub type Witness = Box<dyn FnMut(NodeId, &State, &[Text], &Reply)>;

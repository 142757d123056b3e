//! The state of a server: its keys, and what commands and scripts find besides.

use super::command::{self, Context};
use super::data::Keyspace;
use super::{Command, Reply, Text};

/// The memory of a server, and what it uses of it while it is full and while it is not.
const MEMORY: u64 = 100_000_000;

/// The state that commands and scripts work on.
#[derive(Default)]
pub struct State {
    /// The keys.
    pub keys: Keyspace,
    /// The time of its clock, in microseconds.
    pub micros: u64,
    /// Whether it follows a master, and refuses writes.
    pub is_replica: bool,
    /// Whether it has no memory left.
    pub is_full: bool,
    /// The id of the history of its data: another one after each failover and restart.
    pub history: String,
    /// What it has changed, for replicas and the append-only file.
    pub effects: Vec<Command>,
    /// Whether the script that runs has written: it may then go on without memory.
    pub has_written: bool,
}

impl State {
    /// Executes a command that a script may call.
    pub fn call(&mut self, command: &[Text]) -> Reply {
        let Some(name) = command.first() else { return Reply::syntax() };
        match name.to_ascii_uppercase().as_slice() {
            b"PING" => return Reply::Status("PONG"),
            b"TIME" => {
                let parts = [self.micros / 1_000_000, self.micros % 1_000_000];
                let parts = parts.map(|part| Reply::Bulk(part.to_string().into_bytes()));
                return Reply::Array(parts.to_vec());
            }
            b"INFO" => return Reply::Bulk(self.info().into_bytes()),
            _ => {}
        }
        let Some(known) = command::find(name) else {
            let name = String::from_utf8_lossy(name);
            return Reply::Error(format!("ERR unknown command '{name}'"));
        };
        if known.writes && self.is_replica {
            let text = "READONLY You can't write against a read only replica.";
            return Reply::Error(text.to_string());
        }
        if known.grows && self.is_full && !self.has_written {
            let text = "OOM command not allowed when used memory > 'maxmemory'.";
            return Reply::Error(text.to_string());
        }
        let millis = self.micros / 1000;
        let mut context = Context { keys: &mut self.keys, millis, effect: None };
        let reply = known.execute(&mut context, command);
        if let Some(effect) = context.effect {
            self.effects.push(effect);
        }
        reply
    }

    fn info(&self) -> String {
        let role = if self.is_replica { "slave" } else { "master" };
        let used = if self.is_full { MEMORY } else { MEMORY / 10 };
        format!(
            "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:{0}\r\n\
             # Memory\r\nused_memory:{used}\r\nmem_not_counted_for_evict:0\r\n\
             maxmemory:{MEMORY}\r\nmaxmemory_policy:noeviction\r\n\
             # Replication\r\nrole:{role}\r\nmaster_replid:{0}\r\n",
            self.history,
        )
    }

    /// Executes what a master has executed.
    pub fn repeat(&mut self, effect: &[Text]) {
        let Some(known) = effect.first().and_then(|name| command::find(name)) else { return };
        known.execute(&mut Context { keys: &mut self.keys, millis: 0, effect: None }, effect);
    }
}

//! A server: its state with the scripts that it knows, and the commands that are not about keys.

use super::script::Scripts;
use super::state::State;
use super::{Reply, Text};

/// A server.
pub struct Server {
    /// Its state.
    pub state: State,
    scripts: Scripts,
}

impl Server {
    /// Returns an empty master.
    pub fn new(history: String) -> Server {
        Server { state: State { history, ..State::default() }, scripts: Scripts::new() }
    }

    /// Forgets the scripts, as a restart and `SCRIPT FLUSH` do.
    pub fn forget_scripts(&mut self) {
        self.scripts = Scripts::new();
    }

    /// Executes a command that does not wait.
    pub fn execute(&mut self, command: &[Text]) -> Reply {
        self.state.has_written = false;
        let words: Vec<Text> = command.iter().take(2).map(|w| w.to_ascii_uppercase()).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match (words.as_slice(), command) {
            ([b"SCRIPT", b"LOAD"], [_, _, source]) => self.scripts.load(source),
            ([b"SCRIPT", b"FLUSH"], _) => {
                self.forget_scripts();
                Reply::OK
            }
            ([b"EVALSHA", _], [_, digest, rest @ ..]) => {
                self.scripts.run(&mut self.state, digest, rest)
            }
            _ => self.state.call(command),
        }
    }
}

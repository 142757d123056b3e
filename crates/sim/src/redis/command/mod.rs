//! The commands on keys: for each a function, and whether it writes or needs memory.

mod hash;
mod key;
mod sorted_set;
mod stream;

pub use stream::{Wanted, read_after, wanted};

use super::data::{Keyspace, WrongKind};
use super::{Command, Reply, Text};

/// What a command works with.
pub struct Context<'a> {
    /// The keys of the server.
    pub keys: &'a mut Keyspace,
    /// The time of the server, in milliseconds.
    pub millis: u64,
    /// The command as replicas execute it: with what this server chose, such as an id.
    pub effect: Option<Command>,
}

/// What a command does with its arguments (without its name).
type Run = fn(&mut Context<'_>, &[Text]) -> Result<Reply, WrongKind>;

/// A command on keys.
pub struct Known {
    name: &'static str,
    run: Run,
    arguments_min: usize,
    /// Whether it writes: a replica refuses it.
    pub writes: bool,
    /// Whether it needs memory: it is refused if there is none.
    pub grows: bool,
}

const READS: (bool, bool) = (false, false);
const FREES: (bool, bool) = (true, false);
const GROWS: (bool, bool) = (true, true);

const fn known(
    name: &'static str,
    arguments_min: usize,
    (writes, grows): (bool, bool),
    run: Run,
) -> Known {
    Known { name, run, arguments_min, writes, grows }
}

static KNOWN: &[Known] = &[
    known("DEL", 1, FREES, key::del),
    known("EXISTS", 1, READS, key::exists),
    known("HDEL", 2, FREES, hash::del),
    known("HEXISTS", 2, READS, hash::exists),
    known("HGET", 2, READS, hash::get),
    known("HGETALL", 1, READS, hash::get_all),
    known("HINCRBY", 3, GROWS, hash::increment),
    known("HKEYS", 1, READS, hash::fields),
    known("HLEN", 1, READS, hash::len),
    known("HMGET", 2, READS, hash::get_many),
    known("HSET", 3, GROWS, hash::set),
    known("HSETNX", 3, GROWS, hash::set_new),
    known("XADD", 4, GROWS, stream::add),
    known("XLEN", 1, READS, stream::len),
    known("XRANGE", 3, READS, stream::range),
    known("XREVRANGE", 3, READS, stream::range_back),
    known("XTRIM", 3, FREES, stream::trim),
    known("ZADD", 3, GROWS, sorted_set::add),
    known("ZCARD", 1, READS, sorted_set::len),
    known("ZPOPMIN", 1, FREES, sorted_set::pop_min),
    known("ZREM", 2, FREES, sorted_set::remove),
];

/// Returns the command of this name.
pub fn find(name: &[u8]) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
}

impl Known {
    /// Executes the command. The effect is set if it has changed something.
    pub fn execute(&self, context: &mut Context<'_>, command: &[Text]) -> Reply {
        let arguments = command.get(1..).unwrap_or_default();
        if arguments.len() < self.arguments_min {
            let name = self.name.to_lowercase();
            return Reply::Error(format!("ERR wrong number of arguments for '{name}' command"));
        }
        if self.writes {
            context.effect = Some(command.to_vec());
        }
        let reply = (self.run)(context, arguments).unwrap_or_else(|WrongKind| {
            let text = "WRONGTYPE Operation against a key holding the wrong kind of value";
            Reply::Error(text.to_string())
        });
        if reply.is_error() {
            context.effect = None;
        }
        reply
    }
}

/// Parses a number.
fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

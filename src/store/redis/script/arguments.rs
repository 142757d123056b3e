//! The arguments of the commit script, in one list: their names, their types and their order.
//!
//! A call gives each value by its name. The head of `commit.lua` has the same names, which a test
//! compares, so an argument that is added or moved on one side only is a failure.

use redis::Cmd;

/// Defines [`Arguments`] and [`ARGUMENTS`] from one list.
macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident: $kind:ty),* $(,)?) => {
        /// The names of the arguments in the order of the script. Records and events follow them.
        pub(crate) const ARGUMENTS: &[&str] = &[$(stringify!($name)),*];

        /// The values of the arguments.
        pub(crate) struct Arguments<'a> {
            $($(#[$doc])* pub(crate) $name: $kind),*
        }

        impl Arguments<'_> {
            /// Adds the arguments to a call of the script, in their order.
            pub(crate) fn add_to(&self, call: &mut Cmd) {
                $(call.arg(&self.$name);)*
            }
        }
    };
}

arguments! {
    /// Namespace and name of the application.
    name: String,
    /// The revision that the decision is based on.
    base: u64,
    /// The id of the process: hexadecimal.
    writer: &'a str,
    /// The number of the commit among those of the writer.
    seq: u64,
    /// The new revision.
    revision: u64,
    /// The new head as a record.
    head: Vec<u8>,
    /// Whether records are removed first.
    clears: bool,
    /// Whether the head is a tombstone.
    deleted: bool,
    /// The transition for the log, or nothing.
    body: &'a [u8],
    /// The least number of entries that the log keeps.
    log_max: u32,
    /// The most events of the history.
    events_max: u64,
    /// The oldest time of an event, in milliseconds since 1970.
    events_cutoff: u64,
    /// The most tombstones of the bucket; negative: none is pruned for a while.
    tombs_max: i64,
    /// Begins the names of applications, for those whose tombstones are pruned.
    app_prefix: String,
    /// Begins the names of histories.
    events_prefix: String,
    /// The count of quiet commits before; empty if it is not compared.
    base_quiet: String,
    /// The count of quiet commits after.
    quiet: u64,
    /// The epoch floor of the master that the state was read from.
    counts_above: u64,
    /// The id of the history of that master.
    history: &'a str,
    /// The most events of the application itself.
    own_max: u64,
    /// The oldest time of such an event, in milliseconds since 1970.
    own_cutoff: u64,
    /// Begins the names of histories of applications themselves.
    own_prefix: String,
    /// The number of new answers to requests, with which the fields to set begin.
    answer_count: usize,
    /// The number of fields to set.
    set_count: usize,
    /// The number of fields to remove.
    removed_count: usize,
    /// The number of events.
    event_count: usize,
    /// The statuses as a block, or nothing.
    block: &'a [u8],
    /// The number of statuses in the block, or at the end of the fields to set and to remove.
    status_count: usize,
    /// The number of statuses at the end of the fields to remove.
    removed_statuses: usize,
    /// The processes that may follow the application; `*` if they are not known.
    others: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = include_str!("commit.lua");

    /// Returns what differs between the list and a script, in the order of the script.
    fn differences(script: &str) -> Vec<String> {
        let (before, after) = script.split_once(" = unpack(ARGV, ").unwrap();
        let (_, names) = before.rsplit_once("local ").unwrap();
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        let longest = names.len().max(ARGUMENTS.len());
        let pairs = (0..longest).map(|i| (i + 1, names.get(i), ARGUMENTS.get(i)));
        let differing = pairs.filter(|(_, name, listed)| name != listed);
        let mut found: Vec<String> = differing
            .map(|(i, name, listed)| format!("argument {i} is {name:?}, the list has {listed:?}"))
            .collect();
        let counts = [format!("1, {})\n", ARGUMENTS.len())];
        found.extend(counts.into_iter().filter(|count| !after.starts_with(count)));
        let first = format!("\nlocal sets_at = {}\n", ARGUMENTS.len() + 1);
        found.extend((!script.contains(&first)).then_some(first));
        found
    }

    #[test]
    fn the_script_has_the_arguments_of_the_list_in_their_order() {
        assert_eq!(differences(SCRIPT), [""; 0]);
    }

    #[test]
    fn an_argument_at_another_place_in_the_script_is_found() {
        let faults = [
            ("base, writer", "writer, base"),
            ("answer_count, set_count,", "set_count, answer_count,"),
            ("quiet,", ""),
            ("local name,", "local name, more,"),
            ("unpack(ARGV, 1, ", "unpack(ARGV, 1, 1"),
            ("local sets_at = ", "local sets_at = 1"),
        ];
        for (right, wrong) in faults {
            let script = SCRIPT.replacen(right, wrong, 1);
            assert_ne!(script, SCRIPT, "{right}");
            assert_ne!(differences(&script), [""; 0], "{right} as {wrong}");
        }
    }

    #[test]
    fn the_values_of_a_call_are_in_the_order_of_the_list() {
        let values = Arguments {
            others: "others",
            removed_statuses: 29,
            status_count: 28,
            block: b"block",
            event_count: 26,
            removed_count: 25,
            set_count: 24,
            answer_count: 23,
            own_prefix: "own_prefix".to_string(),
            own_cutoff: 21,
            own_max: 20,
            history: "history",
            counts_above: 18,
            quiet: 17,
            base_quiet: "base_quiet".to_string(),
            events_prefix: "events_prefix".to_string(),
            app_prefix: "app_prefix".to_string(),
            tombs_max: 13,
            events_cutoff: 12,
            events_max: 11,
            log_max: 10,
            body: b"body",
            deleted: true,
            clears: false,
            head: b"head".to_vec(),
            revision: 5,
            seq: 4,
            writer: "writer",
            base: 2,
            name: "name".to_string(),
        };
        let mut call = Cmd::new();
        values.add_to(&mut call);
        let given = call.args_iter().enumerate().map(|(i, arg)| match arg {
            redis::Arg::Simple(word) => (i, String::from_utf8(word.to_vec()).unwrap()),
            redis::Arg::Cursor => panic!("the script takes no cursor"),
            _ => panic!("another kind of argument"),
        });
        for (i, word) in given {
            let is_there = match ARGUMENTS[i] {
                "clears" => word == "0",
                "deleted" => word == "1",
                name => word == name || word == (i + 1).to_string(),
            };
            assert!(is_there, "{} is {word}", ARGUMENTS[i]);
        }
        assert_eq!(call.args_iter().count(), ARGUMENTS.len());
    }
}

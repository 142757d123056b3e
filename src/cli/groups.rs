//! The commands in groups, as the help lists them: by what a person wants to do.

use std::fmt::Write;

use clap::Subcommand;

use crate::cli::Command;

/// The groups with their commands, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Report",
        &[
            "report",
            "replace",
            "clear",
            "error",
            "resolve",
            "app-status",
            "register",
            "stopping",
            "attend",
            "run",
            "callback",
            "leader",
            "data",
            "import",
        ],
    ),
    (
        "Read",
        &[
            "status",
            "why",
            "blockers",
            "faults",
            "log",
            "uptime",
            "namespaces",
            "marks",
            "watch",
            "wait",
            "check",
            "health",
            "explain",
            "explain-error",
        ],
    ),
    ("Operate", &["ack", "plan", "unmark", "ops", "configure", "remove", "delete"]),
    ("Serve", &["serve", "backup", "doctor", "config", "token", "version"]),
    ("Use this program", &["context", "completion", "man", "help"]),
];

/// The columns of a name.
const NAME_COLUMNS: usize = 14;

/// Returns the template of the help of the whole program.
pub fn template() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("bellwether"));
    let about = |name: &str| {
        let command = commands.get_subcommands().find(|command| command.get_name() == name);
        let about = command.and_then(clap::Command::get_about).map(ToString::to_string);
        about.unwrap_or_default().lines().next().unwrap_or_default().to_string()
    };
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        // clap leaves the colours out where there are none.
        let _ = writeln!(text, "\n\x1b[1m\x1b[4m{title}:\x1b[0m");
        for name in *names {
            let about = match *name {
                "help" => "Print this, or the help of a command".to_string(),
                name => about(name),
            };
            let _ =
                writeln!(text, "  \x1b[1m{name}\x1b[0m{:1$}{about}", "", NAME_COLUMNS - name.len());
        }
    }
    text + "\n\x1b[1m\x1b[4mGlobal options:\x1b[0m\n{options}{after-help}"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let commands = Command::augment_subcommands(clap::Command::new("bellwether"));
        let visible = commands.get_subcommands().filter(|command| !command.is_hide_set());
        let mut expected: BTreeSet<&str> = visible.map(clap::Command::get_name).collect();
        expected.insert("help");
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(listed.len(), expected.len(), "none twice");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
        let text = template();
        assert!(
            text.lines().all(|line| !line.trim_end().ends_with("\x1b[0m") || line.contains(':'))
        );
    }
}

//! The commands in groups, as the help lists them: by what a person wants to do. Each group has
//! examples.

use std::fmt::Write;

use clap::Subcommand;

use crate::cli::Command;

/// A title, the commands, and lines to copy.
type HelpGroup = (&'static str, &'static [&'static str], &'static [&'static str]);

/// The groups in the order of the help.
const GROUPS: &[HelpGroup] = &[
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
        &[
            "bellwether report web/0 --level blocked -m \"add a database\" \
             --action \"juju integrate web db\"",
            "bellwether error web/0 --system http --code 503 --target https://pay.example.com",
            "juju status --format json | bellwether import juju",
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
            "notify",
            "wait",
            "check",
            "health",
            "explain",
            "explain-error",
        ],
        &[
            "bellwether status",
            "bellwether why web",
            "bellwether wait --for=active web --timeout 5m",
        ],
    ),
    (
        "Operate",
        &["ack", "plan", "unmark", "ops", "configure", "remove", "delete"],
        &[
            "bellwether ack web --during 4h -m \"ticket 123\"",
            "bellwether ops retry web up-v2",
            "bellwether remove web/0 --dry-run",
        ],
    ),
    (
        "Serve",
        &["serve", "relay", "backup", "doctor", "config", "token", "version"],
        &[
            "bellwether serve --data-dir /var/lib/bellwether",
            "bellwether relay --upstream https://status.example.com:50051",
            "bellwether backup /var/backups/bellwether --data-dir /var/lib/bellwether",
        ],
    ),
    (
        "Use this program",
        &["context", "completion", "man", "help"],
        &["bellwether context set prod --server https://status.example.com:50051"],
    ),
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
    for (title, names, _) in GROUPS {
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

/// Returns the examples of all groups, for the end of the help and of the manual page.
pub fn examples() -> String {
    let mut text = String::from("Examples:");
    for (title, _, lines) in GROUPS {
        let _ = write!(text, "\n  # {title}");
        for line in *lines {
            let _ = write!(text, "\n  {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command as Process;

    use clap::CommandFactory;

    use crate::cli::Cli;

    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let commands = Command::augment_subcommands(clap::Command::new("bellwether"));
        let visible = commands.get_subcommands().filter(|command| !command.is_hide_set());
        let mut expected: BTreeSet<&str> = visible.map(clap::Command::get_name).collect();
        expected.insert("help");
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names, _)| *names).copied().collect();
        assert_eq!(listed.len(), expected.len(), "none twice");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
        let text = template();
        assert!(
            text.lines().all(|line| !line.trim_end().ends_with("\x1b[0m") || line.contains(':'))
        );
    }

    /// Returns the words of a line, as a shell reads it.
    fn words(line: &str) -> Vec<String> {
        let line = line.rsplit(" | ").next().unwrap_or_default();
        let script = format!("printf '%s\\n' {line}");
        let output = Process::new("sh").args(["-c", &script]).output().expect("a shell");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(ToString::to_string).collect()
    }

    #[test]
    fn each_example_is_a_command_of_its_group() {
        for (title, names, examples) in GROUPS {
            assert!(!examples.is_empty(), "{title}");
            for line in *examples {
                let matches = Cli::command().try_get_matches_from(words(line));
                let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
                let name = matches.subcommand_name().unwrap_or_default();
                assert!(names.contains(&name), "{title}: {line}");
                assert!(super::examples().contains(line), "{line}");
            }
        }
    }
}

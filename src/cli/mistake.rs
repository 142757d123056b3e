//! Mistakes in a command line for which clap's own tip is wrong, or for which it has none: what is
//! meant instead.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error, ValueEnum};

use crate::cli::level::LevelWord;

/// Flags of other tools, with what they are called here. An empty path is any command.
const FLAGS: [(&str, &[&str], &str); 10] = [
    ("status", &["--level"], "a level is a word without a flag, as: status blocked"),
    ("wait", &["--level", "--until", "--status"], "--for=LEVEL is the level to wait for"),
    ("watch", &["--level"], "--levels=LEVEL shows what is at this level"),
    ("log", &["--tail", "--lines"], "-n N is the number of events"),
    ("serve", &["--port", "--listen", "--address"], "--grpc-listen HOST:PORT is the address"),
    ("leader transfer", &["--to"], "the unit that shall lead is a word without a flag, as: web/1"),
    ("", &["--status", "--state"], "--level LEVEL is the level of a status"),
    ("", &["--unit"], "the unit is a word without a flag, as: web/0"),
    ("", &["--app", "--application"], "the application is a word without a flag, as: web"),
    ("", &["--json", "--yaml", "--format"], "-o json, -o yaml and -o wide are the formats"),
];

/// Words of other tools, with the command that does the same.
const COMMANDS: [(&[&str], &str); 6] = [
    (&["set", "push", "update"], "`report` reports a status"),
    (&["list", "ps", "show"], "`status` lists what there is"),
    (&["describe", "explain-app"], "`why` says why an application is as it is"),
    (&["history", "events", "logs"], "`log` shows what happened"),
    (&["start", "server", "run"], "`serve` runs the server"),
    (&["rm", "unset"], "`clear` removes a status, `remove` a unit, `delete` an application"),
];

/// Returns the error with a tip that is right, and with the usage of its command. `line` has the
/// words of the command line, `root` what it can have.
pub fn explained(mut error: Error, mut root: Command, line: &[String]) -> Error {
    let (argument, suggestion) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        ErrorKind::InvalidSubcommand => {
            (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        _ => return error,
    };
    root.build();
    let (path, command) = find(&root, line.get(1..).unwrap_or_default());
    let wrong = texts(error.get(argument)).pop().unwrap_or_default();
    let own = match error.kind() {
        ErrorKind::UnknownArgument => of_argument(&path, command, &wrong, line),
        _ => of_command(&path, command, &wrong),
    };
    let mut close = texts(error.get(suggestion));
    if error.kind() == ErrorKind::InvalidSubcommand {
        close = command.get_subcommands().map(|it| it.get_name().to_string()).collect();
    }
    close.retain(|suggested| own.is_none() && is_close(&wrong, suggested));
    // What follows `--` is a command that this one runs, and no value of it.
    let runs_another = command.get_arguments().any(Arg::is_last_set);
    if own.is_some() || !close.is_empty() || !runs_another {
        error.remove(ContextKind::Suggested);
    }
    error.remove(suggestion);
    if !close.is_empty() {
        error.insert(suggestion, ContextValue::Strings(close));
    }
    if let Some(tip) = own {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.clone().render_usage()));
    error
}

/// Returns the help of the command that a line is about.
pub fn help(mut root: Command, line: &[String]) -> String {
    root.build();
    let (_, command) = find(&root, line.get(1..).unwrap_or_default());
    command.clone().render_help().to_string()
}

/// Returns the command that a line is about, with its words.
fn find<'a>(root: &'a Command, line: &[String]) -> (String, &'a Command) {
    let (mut command, mut path, mut is_value) = (root, Vec::new(), false);
    for word in line {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if word.starts_with('-') {
            is_value = command.get_arguments().any(|arg| takes_next(arg, word));
        } else if let Some(next) = command.find_subcommand(word) {
            path.push(next.get_name());
            command = next;
        } else {
            break;
        }
    }
    (path.join(" "), command)
}

/// Whether the word is this flag and the next word its value.
fn takes_next(arg: &Arg, word: &str) -> bool {
    let is_long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
    let is_short = arg.get_short().is_some_and(|short| word == format!("-{short}"));
    (is_long || is_short) && arg.get_action().takes_values()
}

/// Returns the tip for an argument that a command does not have.
fn of_argument(path: &str, command: &Command, wrong: &str, line: &[String]) -> Option<String> {
    let has =
        |flag: &str| command.get_arguments().any(|arg| arg.get_long() == flag.strip_prefix("--"));
    let is_level = LevelWord::from_str(wrong, true).is_ok();
    if is_level && has("--level") {
        return Some(format!("a level follows its flag: --level {}", wrong.to_lowercase()));
    }
    if has("--unit") && !wrong.starts_with('-') && line.iter().any(|word| word.contains('/')) {
        return Some("the unit follows its flag: --unit APP/UNIT".to_string());
    }
    let has_word = |name: &str| {
        let named = |arg: &Arg| arg.get_value_names().is_some_and(|it| it[0].contains(name));
        command.get_positionals().any(named)
    };
    let fits = |(of, flags, _): &&(&str, &[&str], &str)| {
        let is_there = match flags[0] {
            "--status" => has("--level"),
            "--unit" => has_word("APP/UNIT"),
            "--app" => has_word("APP"),
            _ => true,
        };
        flags.contains(&wrong) && (*of == path || of.is_empty() && is_there)
    };
    FLAGS.iter().find(fits).map(|(_, _, tip)| (*tip).to_string())
}

/// Returns the tip for a word that is no command.
fn of_command(path: &str, command: &Command, wrong: &str) -> Option<String> {
    if path.is_empty() {
        let known = COMMANDS.iter().find(|(words, _)| words.contains(&wrong));
        return known.map(|(_, tip)| (*tip).to_string());
    }
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let is_near = names.iter().any(|name| is_close(wrong, name));
    let all = || names.into_iter().filter(|name| *name != "help").collect::<Vec<_>>().join(", ");
    (!is_near).then(|| format!("the first word after `{path}` is one of {}", all()))
}

/// Whether the suggestion of clap may be meant: one letter in three may differ, or the rest be left
/// out.
fn is_close(given: &str, suggested: &str) -> bool {
    let [given, suggested] = [given, suggested].map(|word| word.trim_start_matches('-'));
    let length = given.chars().count();
    let is_start = 3 <= length && suggested.starts_with(given);
    is_start || strsim::osa_distance(given, suggested) * 3 <= length
}

fn texts(value: Option<&ContextValue>) -> Vec<String> {
    match value {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    /// Returns what a person reads about a wrong command line.
    fn explained(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(ToString::to_string).collect();
        let error = Cli::try_parse_from(line.split_whitespace())
            .err()
            .unwrap_or_else(|| panic!("{line} parses"));
        super::explained(error, Cli::command(), &words).render().to_string()
    }

    #[test]
    fn a_mistake_is_answered_with_what_is_meant() {
        for (line, tip) in [
            ("status --level blocked", "a level is a word without a flag, as: status blocked"),
            ("-n status wait web --level active", "--for=LEVEL is the level to wait for"),
            ("report web/0 active", "a level follows its flag: --level active"),
            ("report web/0 --status active", "--level LEVEL is the level of a status"),
            ("report --unit web/0 --level active", "the unit is a word without a flag, as: web/0"),
            ("app-status set web/0 active", "a level follows its flag: --level active"),
            ("op begin web/0 up --to v2", "the unit follows its flag: --unit APP/UNIT"),
            ("status --json", "-o json, -o yaml and -o wide are the formats"),
            ("log web --tail 5", "-n N is the number of events"),
            ("leader transfer web --to web/1", "the unit that shall lead is a word without a flag"),
            ("set web/0 active", "`report` reports a status"),
            ("list", "`status` lists what there is"),
            ("leader web", "the first word after `leader` is one of get, is, claim"),
            ("report web/0 --lvel active", "a similar argument exists: '--level'"),
            ("status --all", "a similar argument exists: '--all-namespaces'"),
            ("staus", "a similar subcommand exists: 'status'"),
            ("leader gte web", "a similar subcommand exists: 'get'"),
        ] {
            let text = explained(&format!("bellwether {line}"));
            assert!(text.contains(tip), "{line}: {text}");
            assert_eq!(text.matches("tip:").count(), 1, "{line}: {text}");
        }
    }

    #[test]
    fn a_command_without_its_action_is_answered_with_its_own_help() {
        let line = ["bellwether", "-n", "prod", "leader"].map(ToString::to_string);
        let help = super::help(Cli::command(), &line);
        assert!(help.contains("Usage: bellwether leader [OPTIONS] <COMMAND>"), "{help}");
    }

    #[test]
    fn a_tip_that_is_wrong_is_left_out() {
        for line in ["error web/0 --class transient", "clear web/0 --al", "wait web --levl active"]
        {
            let text = explained(&format!("bellwether {line}"));
            assert!(!text.contains("tip:") && !text.contains("--server <"), "{line}: {text}");
        }
        let text = explained("bellwether status --level blocked");
        assert!(text.contains("Usage: bellwether status [OPTIONS] [APP|APP/UNIT|LEVEL]"), "{text}");
        // A value that is wrong keeps the tip of clap.
        let text = explained("bellwether report web/0 --level actve");
        assert!(text.contains("a similar value exists: 'active'"), "{text}");
    }
}

//! docs/reference/cli.md: every command with its arguments and flags, and the exit codes.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{paragraphs, sentences, test_page, wrapped};
use crate::cli::Cli;
use crate::cli::command::man::subcommands;
use crate::cli::exit::EXIT_CODES;

const OPENING: &str = "\
# Command line reference

This page lists every command of `bellwether`, with its arguments, flags and exit codes. It has
the text of `--help` and of the manual pages; a test writes it from the definitions and compares
it. [cli.md](../cli.md) has examples and the rules for scripts.

## Commands";

const GLOBAL: &str = "Global options";

#[test]
fn the_page_lists_every_command() {
    let mut root = Cli::command();
    root.build();
    let mut page = paragraphs(OPENING);
    for command in subcommands(&root) {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let about = sentences(about.lines().next().unwrap_or_default().trim());
        let link = format!("- [{name}](#bellwether-{name}): {about}");
        page.push_str(&wrapped(&link, "  "));
    }
    write!(page, "\n## {GLOBAL}\n\nEvery command takes these.\n\n").unwrap();
    let globals: Vec<&Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
    globals.iter().for_each(|arg| page.push_str(&argument(arg)));
    write!(page, "\n## Exit codes\n\n{}", exit_codes()).unwrap();
    for command in subcommands(&root) {
        section(command, &globals, &mut page);
    }
    test_page("cli.md", &page);
}

/// Writes a command and the commands beneath it, without the arguments that every command takes.
fn section(command: &Command, globals: &[&Arg], page: &mut String) {
    let path = command.get_bin_name().unwrap_or("bellwether").to_string();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let long = command.get_long_about().or(command.get_about());
    let about = long.map(ToString::to_string).unwrap_or_default();
    write!(page, "\n## {path}\n\n").unwrap();
    for paragraph in about.split("\n\n") {
        writeln!(page, "{}", wrapped(&sentences(paragraph.trim()), "")).unwrap();
    }
    let aliases: Vec<_> = command.get_visible_aliases().map(|name| format!("`{name}`")).collect();
    if !aliases.is_empty() {
        writeln!(page, "The same command: {}.\n", aliases.join(", ")).unwrap();
    }
    write!(page, "```text\n{usage}\n```\n").unwrap();
    let is_of_all = |arg: &Arg| globals.iter().any(|global| global.get_id() == arg.get_id());
    let own = |arg: &&Arg| !is_of_all(arg) && !arg.is_hide_set();
    let is_standard = |arg: &&Arg| ["help", "version"].contains(&arg.get_id().as_str());
    let arguments: Vec<&Arg> =
        command.get_arguments().filter(own).filter(|arg| !is_standard(arg)).collect();
    if !arguments.is_empty() {
        page.push('\n');
        arguments.into_iter().for_each(|arg| page.push_str(&argument(arg)));
    }
    for beneath in subcommands(command) {
        section(beneath, globals, page);
    }
}

/// Describes an argument: its names, its help, its values, its default and its variable.
fn argument(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let value = arg.get_value_names().filter(|_| takes_value).map(|names| names.join(" "));
    let flags =
        [arg.get_short().map(|c| format!("-{c}")), arg.get_long().map(|l| format!("--{l}"))];
    let flags: Vec<String> = flags.into_iter().flatten().collect();
    let names = match (flags.is_empty(), value) {
        (true, value) => value.unwrap_or_else(|| arg.get_id().to_string().to_uppercase()),
        (_, Some(value)) => format!("{} {value}", flags.join(", ")),
        (_, None) => flags.join(", "),
    };
    let help = arg.get_long_help().or(arg.get_help());
    let mut text = sentences(&help.map(ToString::to_string).unwrap_or_default());
    if takes_value {
        let values = arg.get_possible_values();
        let shown = values.iter().filter(|value| !value.is_hide_set());
        let names: Vec<_> = shown.map(|value| format!("`{}`", value.get_name())).collect();
        if !names.is_empty() {
            write!(text, " Values: {}.", names.join(", ")).unwrap();
        }
        let defaults: Vec<_> =
            arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
        if defaults.iter().any(|default| !default.is_empty()) {
            write!(text, " Default: `{}`.", defaults.join(" ")).unwrap();
        }
    }
    let is_repeated = matches!(arg.get_action(), ArgAction::Append);
    if is_repeated && !text.contains("may be repeated") {
        text.push_str(" May be repeated.");
    }
    if let Some(variable) = arg.get_env() {
        write!(text, " Variable: `{}`.", variable.to_string_lossy()).unwrap();
    }
    wrapped(&format!("- `{names}`: {text}"), "  ")
}

/// The table of the help as a list.
fn exit_codes() -> String {
    let mut text = String::new();
    for line in EXIT_CODES.lines().skip(1) {
        match line.strip_prefix("  ").and_then(|line| line.split_once(' ')) {
            Some((code, meaning)) => {
                let entry = format!("- {code}: {}", sentences(meaning.trim()));
                text.push_str(&wrapped(&entry, "  "));
            }
            None => write!(text, "\n{}", wrapped(&sentences(line), "")).unwrap(),
        }
    }
    text
}

//! Completion of names in real shells, by the script that `completion SHELL` prints.

use std::path::Path;
use std::process::Command;

use crate::cli::ok;
use crate::cli_commands::alone;
use crate::server::{BINARY, Server};

/// Sets what bash sets, and prints what its function answers.
const BASH: &str = r#"
eval "$(bellwether completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
_clap_complete_bellwether bellwether "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// The same for zsh, whose own functions need a terminal.
const ZSH: &str = r#"
compdef() { }
_describe() { print -rl -- ${(P)3} }
eval "$(bellwether completion zsh)"
words=("$@") CURRENT=$#
_clap_dynamic_completer_bellwether
"#;

/// Fish completes a line by itself.
const FISH: &str = r#"
bellwether completion fish | source
complete --do-complete "$argv"
"#;

/// Returns what a shell offers for the last word of a line, sorted; `None` without the shell.
fn offered(shell: &str, line: &[&str], variables: &[(&str, &str)]) -> Option<Vec<String>> {
    if Command::new(shell).arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "{shell} is missing; run tools/install");
        eprintln!("SKIPPED: {shell} is missing; run tools/install");
        return None;
    }
    let mut command = Command::new(shell);
    match shell {
        "bash" => command.args(["--norc", "-c", BASH, "bash"]).args(line),
        "zsh" => command.args(["-f", "-c", ZSH, "zsh"]).args(line),
        _ => command.args(["--no-config", "-c", FISH]).arg(line.join(" ")),
    };
    let folder = Path::new(BINARY).parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let command = command.env("PATH", path).env_remove("BELLWETHER_SERVER");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "", "{shell} {line:?}");
    let out = String::from_utf8(output.stdout).unwrap();
    // After a tab, fish has the help of a word; zsh after a colon, which no name has.
    let word = |line: &str| line.split(['\t', ':']).next().unwrap_or_default().to_string();
    // For an empty word every shell also offers the flags.
    let is_name = |word: &String| !word.is_empty() && !word.starts_with('-');
    let mut words: Vec<_> = out.lines().map(word).filter(is_name).collect();
    words.sort();
    Some(words)
}

#[test]
fn every_shell_completes_contexts_applications_and_units() {
    let server = Server::ephemeral();
    let url = server.url();
    ok(&server, &["report", "web/0", "--level", "active"]);
    ok(&server, &["report", "db/0", "--level", "active"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("contexts.toml");
    let variables = [("BELLWETHER_CONTEXTS", file.to_str().unwrap())];
    for name in ["prod", "prod.eu", "lab"] {
        assert_eq!(alone(&["context", "set", name, "--server", &url], &variables).0, Some(0));
    }
    for shell in ["bash", "zsh", "fish"] {
        for (line, names) in [
            (&["context", "use", ""][..], &["lab", "prod", "prod.eu"][..]),
            (&["context", "use", "pr"], &["prod", "prod.eu"]),
            (&["context", "remove", "l"], &["lab"]),
            (&["--context", "prod"], &["prod", "prod.eu"]),
            (&["status", "--context", "x"], &[]),
            // The current context has the server.
            (&["why", "w"], &["web"]),
            (&["clear", "web/"], &["web/0"]),
        ] {
            let line = [&["bellwether"], line].concat();
            let Some(words) = offered(shell, &line, &variables) else { break };
            assert_eq!(words, names, "{shell} {line:?}");
        }
        // Without a file there is no context, and no error in the line of the person.
        let none = [("BELLWETHER_CONTEXTS", "/nonexistent/contexts.toml")];
        let words = offered(shell, &["bellwether", "context", "use", ""], &none);
        assert_eq!(words.unwrap_or_default(), [""; 0], "{shell}");
    }
}

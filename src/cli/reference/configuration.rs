//! docs/reference/configuration.md: every key, flag and variable of the server.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::{Arg, ArgAction, Args as _, Command, CommandFactory};

use super::{paragraphs, sentences, test_page, wrapped};
use crate::cli::render::text::marked;
use crate::cli::variables::{EXPORTER, OTEL, OWN, collect};
use crate::cli::{Cli, config as config_command};
use crate::config::{Config, Error, Flags, Number, StoreFlags};

const OPENING: &str = "\
# Configuration reference

This page lists every setting of `bellwether serve`. It is for operators. A test writes it from
the code and compares it.

Each setting has the value of its flag, else that of its variable, else that of its key in the
file that `--config` names, else its default. The file is TOML; an unknown key is an error.
`bellwether config check` checks a configuration, `bellwether config print` prints every value
with its source. A relative path starts at the working directory.

## Flags, variables and keys";

const NUMBERS: &str = "\
## Numbers

These are keys of the file only. The largest value is 4294967295 for a time and 281474976710656
for everything else. [limits.md](../limits.md) explains the limits of connections and callers,
[errors.md](../errors.md#limit_exceeded) those of the model, [faults.md](../faults.md) the
thresholds of faults, and [workers.md](../workers.md) the times of sessions.";

const ISSUERS: &str = "\
## Issuers of JWT

Each `[[jwt]]` of the file is an issuer of tokens, see [security.md](../security.md). These are
its keys:";

const OPEN_TELEMETRY: &str = "\
## Variables of OpenTelemetry

An endpoint turns OpenTelemetry on. These variables have the meaning and the defaults of the
OpenTelemetry specification; a variable that is not listed has no effect, and `serve` warns of it.";

/// The keys of an issuer; the names are compared with those that the file may have.
const ISSUER_KEYS: &[(&str, &str)] = &[
    ("name", "Required. The name of the issuer in principals: `jwt:NAME:SUBJECT`."),
    ("issuer", "Required. The claim `iss` of its tokens."),
    ("audience", "Required. The claim `aud` of its tokens, or one of several."),
    ("keys", "Required. A file or URL with its keys: JWKS, or one public key in PEM."),
    ("keys_ca", "CA certificates that verify the server of the URL. Default: those of the system."),
    ("keys_token_file", "A file with the token that the server of the URL requires."),
    (
        "algorithms",
        "Accepted algorithms of RS256, RS384, RS512, ES256, ES384 and EdDSA. Default: RS256 and \
         ES256.",
    ),
];

#[test]
fn the_page_lists_every_setting() {
    let flags = Flags::augment_args(Command::new("serve"));
    let config = Config::load(Flags::default()).unwrap();
    let numbers = config.numbers();
    let mut page = paragraphs(OPENING);
    let mut keys = BTreeSet::from(["jwt".to_string()]);
    for flag in flags.get_arguments() {
        page.push_str(&entry(flag, &config));
        keys.extend((flag.get_id() != "config").then(|| flag.get_id().to_string()));
    }
    write!(page, "\n{}", paragraphs(NUMBERS).trim_end_matches('\n')).unwrap();
    page.push('\n');
    for section in ["", "limits", "history", "sessions", "faults"] {
        let of_section = numbers.iter().filter(|number| number.section == section);
        match section {
            "" => keys.extend(of_section.clone().map(|number| number.key.to_string())),
            _ => drop(keys.insert(section.to_string())),
        }
        let title =
            if section.is_empty() { "Root of the file".into() } else { format!("`[{section}]`") };
        write!(page, "\n### {title}\n\n").unwrap();
        of_section.clone().for_each(|number| page.push_str(&number_entry(number)));
        if !section.is_empty() {
            let listed = of_section.map(|number| number.key.to_string()).collect();
            assert_eq!(allowed(&format!("[{section}]\n")), listed, "[{section}]");
        }
    }
    assert_eq!(allowed(""), keys, "the page lists the keys of the file");
    let issuer_keys = ISSUER_KEYS.iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(allowed("[[jwt]]\n"), issuer_keys, "[[jwt]]");
    write!(page, "\n{}{}", paragraphs(ISSUERS), list(ISSUER_KEYS)).unwrap();
    write!(page, "\n## Other variables\n\n{}", list(OWN)).unwrap();
    write!(page, "\n{}{}", paragraphs(OPEN_TELEMETRY), open_telemetry()).unwrap();
    test_page("configuration.md", &page);
}

/// Returns the keys that a table of the file may have, from the error for an unknown key.
fn allowed(table: &str) -> BTreeSet<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, format!("{table}zz = 1\n")).unwrap();
    let config = Some(file.path().to_path_buf());
    let store = StoreFlags { config, ..StoreFlags::default() };
    let error = Config::load(Flags { store, ..Flags::default() }).unwrap_err();
    let Error::Parse(_, problem) = error else {
        panic!("{error}");
    };
    let (_, expected) = problem.split_once("expected one of").expect("the error lists the keys");
    expected.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

fn entry(flag: &Arg, config: &Config) -> String {
    let key = flag.get_id().as_str();
    let takes_value = !matches!(flag.get_action(), ArgAction::SetTrue);
    let value = flag.get_value_names().filter(|_| takes_value);
    let value =
        value.and_then(|names| names.first()).map_or(String::new(), |name| format!(" {name}"));
    let several = matches!(flag.get_action(), ArgAction::Append);
    let form = match (takes_value, several) {
        (false, _) => " The variable and the key take `true` or `false`.",
        (_, true) => " Several are separated by commas; the key takes a list.",
        _ => "",
    };
    let defaults = config_command::in_force(config);
    let default = defaults.iter().find(|(name, _)| *name == key);
    let default = default.and_then(|(_, value)| value.as_str());
    let default = default.map_or(String::new(), |value| format!(" Default: `{value}`."));
    let head = match key {
        "config" => "no key".to_string(),
        _ => format!("key `{key}`"),
    };
    let long = flag.get_long().expect("a setting has a long flag");
    let variable = flag.get_env().expect("a setting has a variable").to_string_lossy();
    let help = sentences(&flag.get_help().expect("a setting has a help").to_string());
    let names = format!("- `--{long}{value}`, `{variable}`, {head}:");
    wrapped(&format!("{names} {help}{form}{default}"), "  ")
}

fn number_entry(number: &Number) -> String {
    let Number { key, about, value, least, .. } = number;
    let unit = marked(" ", number.unit());
    let least = match least {
        0 => String::new(),
        least => format!(", at least {least}"),
    };
    wrapped(&format!("- `{key}` = {value}{unit}{least}: {about}"), "  ")
}

fn list(entries: &[(&str, &str)]) -> String {
    entries.iter().map(|(name, about)| wrapped(&format!("- `{name}`: {about}"), "  ")).collect()
}

fn open_telemetry() -> String {
    let exporter = |signal: &str| {
        let last = EXPORTER.join("`, `");
        let name = format!("OTEL_EXPORTER_OTLP_{signal}");
        wrapped(&format!("- `{name}` followed by one of `{last}`"), "  ")
    };
    let mut text: String = OTEL.iter().map(|name| format!("- `{name}`\n")).collect();
    text.extend(["", "TRACES_", "METRICS_", "LOGS_"].map(exporter));
    let exporters = "`OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`, `OTEL_LOGS_EXPORTER`";
    text + &format!("- {exporters}: `otlp` or `none`\n")
}

/// Every variable of the command line is on one of the two pages.
#[test]
fn no_variable_is_left_out() {
    let mut variables = BTreeSet::new();
    collect(&Cli::command(), &mut variables);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/");
    let pages = ["configuration.md", "cli.md"]
        .map(|name| std::fs::read_to_string(format!("{folder}{name}")).unwrap());
    for variable in variables {
        assert!(pages.concat().contains(&format!("`{variable}`")), "{variable}");
    }
}

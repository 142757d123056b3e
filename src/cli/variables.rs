//! Environment variables that look like settings and have no effect.

use std::collections::BTreeSet;

use clap::Command;

/// Variables of this program that are no flags, with their meaning.
pub(super) const OWN: &[(&str, &str)] = &[
    // `cargo run` gives these to the program too.
    ("BELLWETHER_COMMIT", "Of the build: the commit that `bellwether version` names."),
    ("BELLWETHER_DATE", "Of the build: the day of that commit."),
    ("BELLWETHER_COMPLETE", "Set by the scripts of `bellwether completion`: asks for completions."),
    ("BELLWETHER_CONTEXTS", "The file in which `bellwether context` saves contexts."),
    (
        "BELLWETHER_LOG",
        "The filter of the log: a level, or `target=level` pairs separated by commas. Without it, \
         `RUST_LOG` is read. Default: `info`.",
    ),
    ("BELLWETHER_STORE_PASSWORD", "The password of Redis."),
    ("BELLWETHER_APPLICATION", "Set by `watch --exec` and `attend --exec`: the application."),
    ("BELLWETHER_UNIT", "Set by `attend --exec`: the unit."),
    (
        "BELLWETHER_EVENT",
        "Set by `watch --exec`: `upserted` or `removed`. Set by `attend --exec`: the event, such \
         as `retry-due`.",
    ),
    ("BELLWETHER_LEVEL", "Set by `watch --exec`: the new level."),
    ("BELLWETHER_LEVEL_FROM", "Set by `watch --exec`: the level before, if it has changed."),
    ("BELLWETHER_MESSAGE", "Set by `watch --exec`: the message, on one line."),
    ("BELLWETHER_REVISION", "Set by `watch --exec`: the revision of the application."),
];

/// Variables of OpenTelemetry that have an effect here, without those of single signals.
pub(super) const OTEL: &[&str] = &[
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_CONCURRENT_EXPORTS",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
];

/// The settings of the OTLP exporters, for all signals or for one.
pub(super) const EXPORTER: &[&str] =
    &["COMPRESSION", "ENDPOINT", "HEADERS", "INSECURE", "PROTOCOL", "TIMEOUT"];

/// Names that differ in so many letters, added, left out or swapped, may be meant as the same.
const LETTERS_MAX: usize = 2;

/// Returns a sentence for each variable that has no effect.
pub fn without_effect(
    command: &Command,
    variables: impl Iterator<Item = (String, String)>,
) -> Vec<String> {
    let own = OWN.iter().map(|(name, _)| name);
    let mut known: BTreeSet<String> = own.chain(OTEL).map(ToString::to_string).collect();
    collect(command, &mut known);
    for signal in ["", "TRACES_", "METRICS_", "LOGS_"] {
        known.extend(EXPORTER.iter().map(|last| format!("OTEL_EXPORTER_OTLP_{signal}{last}")));
    }
    known.extend(["TRACES", "METRICS", "LOGS"].map(|signal| format!("OTEL_{signal}_EXPORTER")));
    let mut variables: Vec<_> = variables.filter(|(_, value)| !value.is_empty()).collect();
    variables.sort();
    variables.iter().filter_map(|(name, value)| sentence(name, value, &known)).collect()
}

/// Adds the variables of the flags of a command and of its subcommands.
pub(super) fn collect(command: &Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(|arg| arg.get_env());
    known.extend(names.map(|name| name.to_string_lossy().into_owned()));
    command.get_subcommands().for_each(|command| collect(command, known));
}

fn sentence(name: &str, value: &str, known: &BTreeSet<String>) -> Option<String> {
    let is_ours = name.starts_with("BELLWETHER_") || name.starts_with("OTEL_");
    if !is_ours || is_of_kubernetes(name) {
        return None;
    }
    if known.contains(name) {
        return exporter(name, value);
    }
    let letters = known.iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    let best = letters.filter(|(letters, _)| *letters <= LETTERS_MAX).min();
    Some(match best {
        Some((_, best)) => format!("{name} has no effect; did you mean {best}?"),
        None => format!("{name} has no effect: no setting has this name"),
    })
}

/// Kubernetes gives each pod variables about the services of its namespace, so a service named
/// `bellwether` has names like ours.
fn is_of_kubernetes(name: &str) -> bool {
    let is_port = name.ends_with("_PORT") || name.contains("_PORT_");
    is_port || name.ends_with("_SERVICE_HOST")
}

fn exporter(name: &str, value: &str) -> Option<String> {
    let signal = name.strip_prefix("OTEL_")?.strip_suffix("_EXPORTER")?;
    let is_supported = |one: &&str| match *one {
        "otlp" | "none" => true,
        "prometheus" => signal == "METRICS",
        _ => false,
    };
    let other = value.split(',').map(str::trim).find(|one| !is_supported(one))?;
    Some(format!("{name}: exporter {other:?} is not supported; give otlp or none"))
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn a_misspelt_variable_is_named_with_the_nearest_known_one() {
        let serve = Command::new("serve").arg(Arg::new("store").env("BELLWETHER_STORE"));
        let command = Command::new("bellwether").subcommand(serve);
        let of = |name: &str, value: &str| {
            let variables = [(name.to_string(), value.to_string())];
            without_effect(&command, variables.into_iter()).concat()
        };
        for (name, value, expected) in [
            ("BELLWETHER_STOER", "x", "did you mean BELLWETHER_STORE?"),
            ("BELLWETHER_GIRAFFE", "x", "no setting has this name"),
            ("BELLWETHER_STORE", "x", ""),
            ("BELLWETHER_COMMIT", "e245752", ""),
            ("BELLWETHER_STOER", "", ""),
            ("BELLWETHER_SERVICE_HOST", "10.0.0.1", ""),
            ("BELLWETHER_PORT_50051_TCP_ADDR", "10.0.0.1", ""),
            ("OTEL_EXPORTER_OTLP_ENDPIONT", "x", "did you mean OTEL_EXPORTER_OTLP_ENDPOINT?"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x", ""),
            ("OTEL_TRACES_EXPORTER", "console", "\"console\" is not supported"),
            ("OTEL_METRICS_EXPORTER", "prometheus, otlp", ""),
            ("PATH", "x", ""),
        ] {
            let found = of(name, value);
            assert!(found.contains(expected), "{name}: {found}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{name}: {found}");
        }
    }
}

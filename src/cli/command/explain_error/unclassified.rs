//! `bellwether explain-error --unclassified`: the errors of a log that no row has.

use std::collections::BTreeMap;

use serde_json::json;

use crate::cli::context::{Context, print_plain};
use crate::domain::classify::finding::{DEFAULT, Evidence};
use crate::domain::classify::{Rules, explain};

/// Prints the lines that no rule and no row has, the most frequent first.
pub fn print(
    rules: &Rules,
    given: &Evidence,
    lines: &str,
    context: &Context,
) -> anyhow::Result<()> {
    let (total, counted) = count(rules, given, lines);
    let values: Vec<_> =
        counted.iter().map(|(text, n)| json!({"count": n, "error": text})).collect();
    let value = json!({ "lines": total, "unclassified": values });
    context.print_value(&value, || {
        let rows = counted.iter().map(|(text, n)| format!("{n:>7}  {text}\n"));
        print_plain(&rows.collect::<String>())
    })
}

/// Returns the number of errors, and those without a row with their counts.
fn count(rules: &Rules, given: &Evidence, lines: &str) -> (usize, Vec<(String, usize)>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        total += 1;
        let evidence = read(given, line);
        if explain(rules, &evidence).rule == DEFAULT {
            let Evidence { system, code, message, .. } = &evidence;
            let what = if code.is_empty() { message } else { code };
            *counts.entry(format!("{system} {what}")).or_default() += 1;
        }
    }
    let mut counted: Vec<_> = counts.into_iter().collect();
    counted.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    (total, counted)
}

/// Reads a line. The errors of helm have no code.
fn read(given: &Evidence, line: &str) -> Evidence {
    let split = |text: &'_ str| {
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        (first.to_string(), rest.trim_start().to_string())
    };
    let (system, rest) = match &*given.system {
        "" => split(line),
        system => (system.to_string(), line.to_string()),
    };
    let (code, message) = match &*system {
        "helm" => (String::new(), rest),
        _ => split(&rest),
    };
    Evidence { system: system.into(), code: code.into(), message: message.into(), ..given.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::classify::finding::{ErrorOrigin, Hints};

    #[test]
    fn errors_without_a_row_are_listed_by_their_count() {
        let given = |system: &str| Evidence {
            system: system.into(),
            code: "".into(),
            origin: ErrorOrigin::Peer,
            outcome: None,
            domain: "".into(),
            reason: "".into(),
            message: "".into(),
            retry_after: None,
            hints: Hints::default(),
        };
        let lines = "grpc UNAVAILABLE gone\n\nvendor E2 x\nredis ODD reply\nvendor E2 y\n\
                     helm cluster unreachable\nhelm something odd\n";
        let (total, counted) = count(&Rules::default(), &given(""), lines);
        let expected = [("vendor E2", 2), ("helm something odd", 1), ("redis ODD", 1)];
        let counted: Vec<_> = counted.iter().map(|(text, n)| (&**text, *n)).collect();
        assert_eq!((total, &*counted), (6, &expected[..]));
        let (total, counted) = count(&Rules::default(), &given("http"), "503 away\nteapot x\n");
        assert_eq!((total, counted), (2, vec![("http teapot".to_string(), 1)]));
    }
}

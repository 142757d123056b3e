//! The tables of the Python package, which classifies by them while it does not reach a server.

use std::path::Path;

use crate::domain::classify::index::CodeTable;
use crate::domain::classify::rule::Rule;
use crate::domain::classify::table::tables;

/// The systems of errors that the package reports.
const SYSTEMS: [&str; 11] = [
    "grpc",
    "http",
    "redis",
    "postgresql",
    "mysql",
    "aws",
    "kubernetes",
    "acme",
    "etcd",
    "io",
    "python",
];
/// Columns of a line of the package.
const COLUMNS_MAX: usize = 92;

/// Compares the tables of the package with those of the server, or writes them.
#[test]
fn the_python_package_has_the_tables_of_the_server() {
    let meant = tables().iter().filter(|table| SYSTEMS.contains(&&*table.head.system));
    let parts: Vec<String> = meant.map(part).collect();
    assert_eq!(parts.len(), SYSTEMS.len());
    let text = format!(
        "\"\"\"The rows by which errors are classified, as the server has them.\"\"\"\n\n\
         # Made by `UPDATE=1 cargo test --lib the_python_package_has` from\n\
         # src/domain/classify/tables; change the tables instead.\n\
         #: Tables with an empty line between. The first line of a table has its systems, the\n\
         #: domains of reasons, packages of Python, and systems whose texts it explains. A row\n\
         #: has its class, with - if it does not hold; conditions; codes; texts; reasons.\n\
         TABLES = (\n{})\n",
        parts.join("    \"\\n\"\n")
    );
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python/src");
    let path = package.join("bellwether_client/_classes.py");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == text, "_classes.py is not up to date; run it with UPDATE=1");
}

fn part(table: &CodeTable) -> String {
    let head = &table.head;
    let systems = std::iter::once(&*head.system).chain(head.aliases.iter().map(|name| &**name));
    let list = |names: &[Box<str>]| names.join(" ");
    let systems: Vec<&str> = systems.collect();
    let names =
        [systems.join(" "), list(&head.domains), list(&head.packages), list(&head.texts_of)];
    let rows = table.rows.iter().map(line);
    wrapped(&names.join("~")) + &rows.collect::<String>()
}

fn line(row: &Rule) -> String {
    let is_unheld = row.class.holds() && row.unheld;
    let origin = row.origin.map(|origin| format!("{origin:?}").to_uppercase());
    let when = row.when.map(|when| when.word().to_string());
    let facts: Vec<String> = origin.into_iter().chain(when).collect();
    let fields = [
        format!("{}{}", row.class.word(), if is_unheld { "-" } else { "" }),
        facts.join(" "),
        row.codes.join(" "),
        row.messages.join("|"),
        row.reasons.join(" "),
    ];
    assert!(row.outcome.is_none() && row.domain.is_none(), "{}", row.name);
    wrapped(&fields.join("~"))
}

/// Returns a line as texts of Python, one after the other, which Python joins.
fn wrapped(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('…', "\\u2026");
    let mut lines = vec![String::new()];
    for word in escaped.split_inclusive(' ') {
        let last = lines.last_mut().unwrap();
        if !last.is_empty() && COLUMNS_MAX < last.chars().count() + word.chars().count() {
            lines.push(word.to_string());
            continue;
        }
        last.push_str(word);
    }
    if let Some(last) = lines.last_mut() {
        last.push_str("\\n");
    }
    lines.iter().map(|line| format!("    \"{line}\"\n")).collect()
}

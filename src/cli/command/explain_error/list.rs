//! `bellwether explain-error --list`: the rows of the tables.

use serde_json::json;

use crate::cli::context::{Context, print_plain};
use crate::cli::exit::UsageError;
use crate::domain::classify::rule::Rule;
use crate::domain::classify::table::tables;

/// A line: a code of a row, or a part of the message if the row has no code.
struct Line {
    code: &'static str,
    message: &'static str,
    row: &'static Rule,
}

/// Prints the lines of all tables, or of one.
pub fn print(system: Option<&str>, context: &Context) -> anyhow::Result<()> {
    let lines = lines(system);
    if let (Some(system), []) = (system, &*lines) {
        let names: Vec<&str> = tables().iter().map(|table| &*table.head.system).collect();
        let text = format!("no table {system:?}; there are {}", names.join(", "));
        return Err(UsageError(text).into());
    }
    let values: Vec<_> = lines.iter().map(as_value).collect();
    let text = lines.iter().map(|Line { code, message, row }| {
        let system = row.system.as_deref().unwrap_or_default();
        let (class, why) = (row.class.word(), &row.explanation);
        let what = if code.is_empty() { format!("{message:?}") } else { code.to_string() };
        format!("{system:<10} {what:<38}  {class:<12}  {why}\n")
    });
    context.print_value(&json!({ "codes": values }), || print_plain(&text.collect::<String>()))
}

/// Returns the lines. A code with several lines depends on further facts; the first line that
/// applies decides.
fn lines(system: Option<&str>) -> Vec<Line> {
    let tables = tables().iter();
    let meant = tables.filter(|table| system.is_none_or(|system| *table.head.system == *system));
    let mut lines = Vec::new();
    for row in meant.flat_map(|table| &table.rows) {
        lines.extend(row.codes.iter().map(|code| Line { code, message: "", row }));
        if row.codes.is_empty() {
            let parts = row.messages.iter();
            lines.extend(parts.map(|message| Line { code: "", message, row }));
        }
    }
    lines
}

fn as_value(line: &Line) -> serde_json::Value {
    let row = line.row;
    json!({
        "system": row.system,
        "code": line.code,
        "message": line.message,
        "class": row.class.word(),
        "held": row.class.holds() && !row.unheld,
        "rule": row.name,
        "explanation": row.explanation,
        "remedy": row.remedy,
        "source": row.source,
    })
}

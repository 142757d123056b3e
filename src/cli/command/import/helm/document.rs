//! The output of `helm list -o json`: a list of releases. Helm 3 and 4 print the same fields.

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::cli::command::import::json;

/// The command that prints a document.
const PRINT: &str = "print it with `helm list -A -m 0 -o json`, by Helm 3 also with `-a`";

/// A release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The number of its newest revision.
    pub revision: u64,
    /// When that revision began.
    pub updated: Option<Timestamp>,
    /// `deployed`, `failed`, `pending-upgrade`, ...
    pub status: String,
    /// Name and version of its chart: `web-1.4.0`.
    pub chart: String,
    /// The version of what the chart installs.
    pub app_version: String,
}

/// Reads the releases of a document.
///
/// # Errors
/// The place of a mistake, and what is expected there.
pub fn read(text: &str) -> anyhow::Result<Vec<Release>> {
    if text.trim_start().is_empty() {
        bail!("the document is empty; {PRINT}");
    }
    if !text.trim_start().starts_with(['[', 'n']) {
        bail!("the document is no list in JSON; {PRINT}");
    }
    let releases = match json::read(text).context("the document is no list of releases")? {
        Value::Array(releases) => releases,
        // An empty list of a program in Go.
        Value::Null => Vec::new(),
        _ => bail!("the document is no list in JSON; {PRINT}"),
    };
    let numbered = releases.into_iter().enumerate();
    numbered.map(|(at, release)| of(release).with_context(|| wrong(at + 1))).collect()
}

fn wrong(number: usize) -> String {
    format!("release {number} of the document is wrong")
}

fn of(release: Value) -> anyhow::Result<Release> {
    let Value::Object(fields) = release else {
        bail!("it is no object; {PRINT}, and without --short");
    };
    let revision = match fields.get("revision") {
        Some(Value::String(text)) => text.parse().ok(),
        Some(number) => number.as_u64(),
        None => bail!("it has no `revision`; {PRINT}"),
    };
    Ok(Release {
        name: needed(&fields, "name")?,
        namespace: needed(&fields, "namespace")?,
        revision: revision.context("its `revision` is no number")?,
        updated: time(&text(&fields, "updated")?),
        status: needed(&fields, "status")?,
        chart: text(&fields, "chart")?,
        app_version: text(&fields, "app_version")?,
    })
}

fn needed(fields: &Map<String, Value>, name: &str) -> anyhow::Result<String> {
    let found = text(fields, name)?;
    if found.is_empty() {
        bail!("it has no `{name}`; {PRINT}");
    }
    Ok(found)
}

fn text(fields: &Map<String, Value>, name: &str) -> anyhow::Result<String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.trim().to_string()),
        Some(_) => bail!("its `{name}` is no text"),
    }
}

/// Reads `2026-02-24 11:02:07.123456789 +0100 CET`, as Go prints a time, or RFC 3339.
fn time(text: &str) -> Option<Timestamp> {
    let mut parts = text.split(' ');
    let moment = match (parts.next()?, parts.next(), parts.next()) {
        (date, Some(time), Some(offset)) => format!("{date}T{time}{offset}"),
        (whole, None, None) => whole.to_string(),
        _ => return None,
    };
    moment.parse().ok().filter(|at: &Timestamp| 0 < at.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_its_place() {
        let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
        for (text, expected) in [
            ("", "the document is empty; print it with `helm list"),
            ("NAME  NAMESPACE", "is no list in JSON; print it with `helm list"),
            (r#"{"name": "web"}"#, "is no list in JSON"),
            ("nothing", "line 1 column"),
            (r#"["web"]"#, "release 1 of the document is wrong: it is no object"),
            (r#"[{"name": "web"}]"#, "it has no `revision`"),
            (r#"[{"name": "web", "name": "x"}]"#, "`name` is there twice at line 1 column"),
            (r#"[{"name": "web", "revision": "x"}]"#, "release 1 of the document is wrong: it has"),
            (
                r#"[{"name": "w", "namespace": "n", "revision": "-1", "status": "deployed"}]"#,
                "its `revision` is no number",
            ),
            (
                r#"[{"name": "w", "namespace": "n", "revision": 1, "status": "deployed"}, {}]"#,
                "release 2 of the document is wrong: it has no `revision`",
            ),
            (
                r#"[{"name": ["w"], "namespace": "n", "revision": 1, "status": "deployed"}]"#,
                "its `name` is no text",
            ),
            (r#"[{"name": "#, "EOF while parsing"),
            ("[] []", "trailing characters at line 1 column 4"),
            (&deep, "more than 64 values within each other"),
        ] {
            let error = format!("{:#}", read(text).expect_err(text));
            assert!(error.contains(expected), "{text}: {error}");
        }
        for empty in ["[]", "null\n"] {
            assert_eq!(read(empty).expect("no releases"), []);
        }
    }

    #[test]
    fn a_time_is_read_as_go_prints_it() {
        let of = |text| time(text).map(Timestamp::as_second);
        assert_eq!(of("2026-02-24 11:02:07.123456789 +0000 UTC"), Some(1_771_930_927));
        assert_eq!(of("2026-02-24 12:02:07 +0100 CET"), Some(1_771_930_927));
        assert_eq!(of("2026-02-24T11:02:07Z"), Some(1_771_930_927));
        for unknown in ["", "-", "24 Feb 26 11:02 UTC", "0001-01-01 00:00:00 +0000 UTC", "x y z"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }
}

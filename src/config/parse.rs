//! Describes a mistake in a configuration file without showing the line, which may hold a password.

/// Returns line and column, and the message of the parser unless it could quote a secret.
pub(super) fn problem(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..at).unwrap_or_default();
    let (line, start) = (before.matches('\n').count() + 1, before.rfind('\n').map_or(0, |n| n + 1));
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    let place = format!("line {line}, column {column}");
    // The line, or all lines of a value that spans several.
    let end = error.span().map_or(at, |span| span.end).max(at);
    let end = text.get(end..).and_then(|rest| rest.find('\n')).map_or(text.len(), |n| end + n);
    match may_be_secret(text.get(start..end).unwrap_or(text)) {
        true => format!("{place}: invalid, and not shown, as it may hold a password"),
        false => format!("{place}: {}", error.message().replace('\n', "; ")),
    }
}

/// Whether a part of the file may hold a URL or a password.
fn may_be_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["://", "store", "password", "secret", "redis", "valkey", "@"].iter().any(|w| text.contains(w))
}

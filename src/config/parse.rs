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
        false => format!("{place}: {}", with_guess(error.message()).replace('\n', "; ")),
    }
}

/// Keys that differ in so many letters, added, left out or swapped, may be meant as the same.
const LETTERS_MAX: usize = 2;

/// Replaces the list of all keys, in a message about an unknown key, by the key that may be meant.
fn with_guess(message: &str) -> String {
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let Some((unknown, list)) = unknown else { return message.to_string() };
    let key = unknown.replace('-', "_");
    let known = list.split('`').skip(1).step_by(2);
    let letters = known.map(|known| (strsim::damerau_levenshtein(&key, known), known));
    match letters.filter(|(letters, _)| *letters <= LETTERS_MAX).min() {
        Some((_, known)) => format!("unknown field `{unknown}`; did you mean `{known}`?"),
        None => message.to_string(),
    }
}

/// Whether a part of the file may hold a URL or a password.
fn may_be_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["://", "store", "password", "secret", "redis", "valkey", "@"].iter().any(|w| text.contains(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_nearly_right_gets_a_guess() {
        let list = "expected one of `grpc_listen`, `ops_listen`, `limits`";
        for (unknown, guess) in [
            ("grpc_lisen", Some("grpc_listen")),
            ("grpc-listen", Some("grpc_listen")),
            ("limit", Some("limits")),
            ("surprise", None),
            ("", None),
        ] {
            let message = format!("unknown field `{unknown}`, {list}");
            let expected = match guess {
                Some(guess) => format!("unknown field `{unknown}`; did you mean `{guess}`?"),
                None => message.clone(),
            };
            assert_eq!(with_guess(&message), expected);
        }
        assert_eq!(
            with_guess("unknown field `a`, there are no fields"),
            "unknown field `a`, there are no fields"
        );
        assert_eq!(with_guess("invalid type: string"), "invalid type: string");
    }
}

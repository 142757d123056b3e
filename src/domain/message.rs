//! The status line: when two texts say the same.

/// Whether two texts differ at most in ports, ids and counters: in numbers, whatever unit follows
/// (`10s`), and in hex words as ids have them. A number at the end of a word is part of a name
/// (`ipv6`, `s3`) and does matter. A retry that counts up says nothing new, so it makes no history.
pub fn same_text(a: &str, b: &str) -> bool {
    a == b || words(a).eq(words(b))
}

/// Text cut into what is compared: numbers and ids become one mark.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let belongs: fn(char) -> bool = if first.is_ascii_alphanumeric() {
            |c| c.is_ascii_alphanumeric()
        } else {
            |c| !c.is_ascii_alphanumeric()
        };
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let end = match is_id(&rest[..end]) || digits == 0 {
            true => end,
            false => digits,
        };
        let (word, tail) = rest.split_at(end);
        rest = tail;
        Some(if is_id(word) { "#" } else { word })
    })
}

/// A number, or hex digits with a digit among them: eight and more (a commit, a container), or four
/// (the middle of a UUID).
fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    0 < digits
        && (digits == word.len()
            || 8 <= word.len() && word.bytes().all(|b| b.is_ascii_hexdigit())
            || word.len() == 4 && word.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// At most `chars` characters, with `…` for what was cut. Cut by characters, never by bytes.
pub fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_string();
    }
    let mut short: String = text.chars().take(chars.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_ports_and_ids_do_not_matter() {
        for (a, b, same) in [
            ("retry 3 of 10", "retry 4 of 10", true),
            ("connect 10.0.0.1:4242", "connect 10.0.0.7:5151", true),
            (
                "pod 3b241101-e2bb-4255-8caf-4136c566a962",
                "pod 6fa459ea-ee8a-3ca4-894e-db77e160355e",
                true,
            ),
            ("at 9fceb02d0ae5", "at 1a410efbd13e", true),
            ("waiting for db", "waiting for api", false),
            ("retry in 9s, 512MiB left", "retry in 10s, 8MiB left", true),
            ("retry in 9s", "retry in 9h", false),
            ("no ipv4", "no ipv6", false),
            ("step 1", "step one", false),
            ("", "x", false),
            ("beef", "cafe", false),
        ] {
            assert_eq!(same_text(a, b), same, "{a:?} {b:?}");
        }
    }

    #[test]
    fn cut_counts_characters() {
        assert_eq!(cut("äöüß", 4), "äöüß");
        assert_eq!(cut("äöüßx", 4), "äöü…");
    }
}

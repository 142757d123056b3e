//! Comparison and shortening of status texts.

use std::borrow::Cow;

/// Returns whether two texts differ at most in ports, ids and counters: in numbers, with or without
/// a unit (`10s`), and in hex words of the form of ids. A number at the end of a word is part of a
/// name (`ipv6`, `s3`) and counts as a difference. A retry that only counts up therefore adds no
/// event to the history.
pub fn same_text(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let start = first_difference(a, b);
    words(&a[start..]).eq(words(&b[start..]))
}

/// Returns the start of the first word that differs. The equal text before it consists of the same
/// words, so only the rest needs a comparison.
fn first_difference(a: &str, b: &str) -> usize {
    let (x, y) = (a.as_bytes(), b.as_bytes());
    let shared = x.iter().zip(y).take_while(|(x, y)| x == y).count();
    // The run of letters and digits, or of other characters, that contains the difference.
    let Some(before) = shared.checked_sub(1) else { return 0 };
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() == x[before].is_ascii_alphanumeric();
    shared - x[..shared].iter().rev().take_while(|byte| belongs(byte)).count()
}

/// Returns the units of comparison of a text: each number or id becomes one mark.
fn words(text: &str) -> impl Iterator<Item = &[u8]> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let is_word = rest.first()?.is_ascii_alphanumeric();
        // Non-ASCII bytes count as separators.
        let belongs = |byte: &u8| byte.is_ascii_alphanumeric() == is_word;
        let end = rest.iter().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        let digits = rest[..end].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_id = is_id(&rest[..end]);
        let (word, tail) = rest.split_at(if is_id || digits == 0 { end } else { digits });
        rest = tail;
        Some(if is_id || digits != 0 { b"#" } else { word })
    })
}

/// Returns whether a word is a number, or hex digits with a digit among them: eight or more (a
/// commit, a container), or four (the middle of a UUID).
fn is_id(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_hex = || word.iter().all(u8::is_ascii_hexdigit);
    0 < digits && (digits == word.len() || (8 <= word.len() || word.len() == 4) && is_hex())
}

/// Returns at most `chars` characters of a text, with `…` at a cut. Cuts between characters, never
/// inside one.
pub fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_string();
    }
    let mut short: String = text.chars().take(chars.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Returns at most `bytes_max` bytes of a text, with `…` at a cut. Cuts between characters.
pub fn cut_bytes(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8()));
    Cow::Owned(format!("{}…", &text[..end]))
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
            ("at node1", "at node", false),
            ("at 1", "at 12ms", false),
            ("größe 1: ä", "größe 1: ö", false),
            ("größe 1: ä2", "größe 1: ä3", true),
            ("took 12ms", "took 1234ms", true),
        ] {
            assert_eq!(same_text(a, b), same, "{a:?} {b:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn skipping_what_is_shared_changes_nothing(
            shared in "[a-f1 é:]{0,6}",
            a in "[a-f1 é:]{0,4}",
            b in "[a-f1 é:]{0,4}",
        ) {
            let (a, b) = (format!("{shared}{a}"), format!("{shared}{b}"));
            proptest::prop_assert_eq!(same_text(&a, &b), words(&a).eq(words(&b)));
        }
    }

    #[test]
    fn a_text_is_cut_at_a_character() {
        for (text, max, expected) in [
            ("short", 64, "short"),
            ("abcdefgh", 8, "abcdefgh"),
            ("abcdefghi", 8, "abcde…"),
            ("ääää", 8, "ääää"),
            ("ääää", 7, "ää…"),
            ("ääääää", 8, "ää…"),
            ("ä", 1, "…"),
        ] {
            assert_eq!(cut_bytes(text, max), expected, "{text} at {max}");
        }
    }

    #[test]
    fn cut_counts_characters() {
        assert_eq!(cut("äöüß", 4), "äöüß");
        assert_eq!(cut("äöüßx", 4), "äöü…");
    }
}

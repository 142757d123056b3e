//! The progress of an operation: a bar beside its words, if they are a fraction.

use super::html::Html;
use crate::proto::v1;

/// A part of a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fraction {
    part: u32,
    whole: u32,
}

impl Fraction {
    /// Reads the first fraction in words, such as `3 of 7 nodes`, `step 3/7` or `40 %`; `None` if
    /// there is none, or if the part is more than the whole.
    fn of(words: &str) -> Option<Fraction> {
        let mut rest = words;
        loop {
            rest = &rest[rest.find(|c: char| c.is_ascii_digit())?..];
            let (part, after) = number(rest)?;
            let whole = match after.trim_start() {
                after if after.starts_with('%') => Some(100),
                after => {
                    let after = after.strip_prefix('/').or_else(|| after.strip_prefix("of "));
                    after.and_then(|after| number(after.trim_start())).and_then(|(whole, _)| whole)
                }
            };
            if let (Some(part), Some(whole)) = (part, whole) {
                return (0 < whole && part <= whole).then_some(Fraction { part, whole });
            }
            rest = after;
        }
    }
}

/// Splits a text after its first digits. The number is `None` if it is part of a decimal fraction
/// or too large; the result is `None` without digits.
fn number(text: &str) -> Option<(Option<u32>, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if digits == 0 {
        return None;
    }
    let (number, after) = text.split_at(digits);
    let decimals = after.strip_prefix('.').and_then(number_length);
    match decimals {
        Some(length) => Some((None, &after[1 + length..])),
        None => Some((number.parse().ok(), after)),
    }
}

fn number_length(text: &str) -> Option<usize> {
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (0 < length).then_some(length)
}

/// Adds a bar with a space after it, if the progress of an operation in work is a fraction. Its
/// words are in the message.
pub fn add(html: &mut Html, operation: &v1::WinningOperation) {
    let Some(Fraction { part, whole }) = Fraction::of(&operation.progress) else { return };
    let markup = r#"<progress max="{}" value="{}" aria-label="{}"></progress> "#;
    html.fill(markup, &[&whole, &part, &operation.progress]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Option<(u32, u32)> {
        Fraction::of(words).map(|fraction| (fraction.part, fraction.whole))
    }

    #[test]
    fn a_fraction_is_read_from_the_words_that_people_write() {
        for (words, expected) in [
            ("step 3/7", Some((3, 7))),
            ("3 of 7 nodes", Some((3, 7))),
            ("3 / 7", Some((3, 7))),
            ("40 %", Some((40, 100))),
            ("40% of all", Some((40, 100))),
            ("v2: 1/2, then the rest", Some((1, 2))),
            ("node 12: 5 of 9", Some((5, 9))),
            ("0/3", Some((0, 3))),
            ("7/7", Some((7, 7))),
        ] {
            assert_eq!(read(words), expected, "{words}");
        }
        for words in [
            "",
            "copying",
            "step 3",
            "8/7",
            "120 %",
            "0/0",
            "99999999999/7",
            "3 often",
            "40.5 %",
            "3/",
            "1 von 2",
            "é 3",
        ] {
            assert_eq!(read(words), None, "{words}");
        }
    }

    #[test]
    fn a_bar_has_its_words_for_those_who_do_not_see_it() {
        let shown = |progress: &str| {
            let mut html = Html::default();
            let progress = progress.to_string();
            add(&mut html, &v1::WinningOperation { progress, ..Default::default() });
            html.as_str().to_string()
        };
        let bar =
            r#"<progress max="7" value="3" aria-label="3 of 7 &quot;nodes&quot;"></progress> "#;
        assert_eq!(shown("3 of 7 \"nodes\""), bar);
        assert_eq!(shown("copying"), "");
    }
}

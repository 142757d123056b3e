//! Texts from outside, made safe to show: on a terminal, on a page, in a line of an answer.

/// Characters without a shape of their own: they change the direction of a text, or join or hide
/// its letters. The two line ends beyond ASCII are among them.
const FORMAT: [(char, char); 18] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{13430}', '\u{1345f}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character may affect a terminal or mislead a reader: control characters (C0, DEL, C1)
/// and format characters (text direction and the like).
pub fn is_unsafe(character: char) -> bool {
    let within = |(first, last): &(char, char)| (*first..=*last).contains(&character);
    character.is_control() || FORMAT.iter().any(within)
}

/// Puts a text from outside on one line, without control and format characters: a report must not
/// move the cursor, and no name may look like another one.
pub fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}';
    let parts: Vec<String> = text
        .split(breaks)
        .map(|part| part.chars().filter(|c| !is_unsafe(*c)).collect::<String>())
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(" ").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_cannot_move_the_cursor() {
        assert_eq!(one_line("a\r\nb\x1b[2Jc\u{9b}31m "), "a b [2Jc 31m");
        assert_eq!(one_line("one\u{2028}two"), "one two");
    }

    #[test]
    fn a_text_cannot_turn_its_direction_or_hide_letters() {
        assert_eq!(one_line("pay\u{202e}lanruoj\u{202c}"), "paylanruoj");
        assert_eq!(one_line("a\u{200b}d\u{ad}min\u{feff}\u{e0041}\u{3164}\u{115f}"), "admin");
        assert_eq!(one_line("größer, 日本, ✓ ❤\u{fe0f}"), "größer, 日本, ✓ ❤\u{fe0f}");
    }
}

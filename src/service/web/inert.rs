//! Characters that could act where a text is shown.

/// Returns whether a character controls a terminal, or could hide or reorder other characters.
pub fn is_active(one: char) -> bool {
    let reorders =
        matches!(one, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    reorders || one.is_control()
}

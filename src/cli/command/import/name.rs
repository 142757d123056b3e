//! Names of other systems as names of Bellwether.

use crate::domain::limits::NAME_BYTES_MAX;

/// Returns a name with `-` for each character that no name may have; `None` if none is left, or if
/// it is too long.
pub fn taken(text: &str) -> Option<String> {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let text: String = text.chars().map(|c| if is_taken(c) { c } else { '-' }).collect();
    let text = text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    (!text.is_empty() && text.len() <= NAME_BYTES_MAX).then(|| text.to_string())
}

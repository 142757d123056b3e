//! A strip of equal slots: time from left to right, worse is higher, so that it reads without
//! colours. The same sums in words are its label.

use super::html::Html;
use super::view::{self, LEVELS};
use crate::proto::v1;
use crate::service::convert::level_word;

/// Height of a strip.
pub const HEIGHT: usize = 16;
/// Heights of the levels, the worst first.
const HEIGHTS: [usize; LEVELS.len()] = [16, 13, 10, 9, 7, 3, 2];
/// A slot in which a unit was silent, and nothing was worse.
const SILENT: u8 = 128;

/// Returns the height of a level.
pub fn height(level: v1::Level) -> usize {
    HEIGHTS[view::place(level)]
}

/// Formats a length with two units: `3h 19m`.
pub fn length(seconds: i64) -> String {
    match (seconds / 3600, seconds % 3600 / 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m"),
        (48.., _) => format!("{}d", seconds / 86_400),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h {minutes}m"),
    }
}

/// Adds a strip of slots, one byte each, as `ListPast` has them. `seconds` is the length of a slot.
pub fn add(html: &mut Html, slots: &[u8], what: &str, seconds: i64) {
    let markup = r#"<svg class="strip" viewBox="0 0 {} 16" preserveAspectRatio="none" role="img" "#;
    html.fill(markup, &[&slots.len()]);
    html.fill(r#"aria-label="{}: {}">"#, &[&what, &sums(slots, seconds)]);
    let mut from = 0;
    for run in slots.chunk_by(|one, other| one == other) {
        let width = run.len();
        match shown(run[0]) {
            Some((class, height)) => {
                html.fill(
                    r#"<rect class="{}" x="{}" y="{}""#,
                    &[&class, &from, &(HEIGHT - height)],
                );
                html.fill(r#" width="{}" height="{}"/>"#, &[&width, &height]);
            }
            None => {
                html.fill(r#"<path class="none" d="M{} 15.5H{}"/>"#, &[&from, &(from + width)]);
            }
        }
        from += width;
    }
    html.raw("</svg>");
}

/// Returns the class and the height of a slot; `None` if there is no record.
fn shown(slot: u8) -> Option<(&'static str, usize)> {
    if slot == SILENT {
        return Some(("silent", height(v1::Level::Unknown)));
    }
    let level = v1::Level::try_from(i32::from(slot)).unwrap_or(v1::Level::Unspecified);
    (level != v1::Level::Unspecified).then(|| (level_word(level), height(level)))
}

/// Returns how long each level lasted in words, the worst first.
fn sums(slots: &[u8], seconds: i64) -> String {
    let count = |slot: u8| slots.iter().filter(|one| **one == slot).count() as i64 * seconds;
    let levels = LEVELS.map(|level| (level_word(level), count(level as i32 as u8)));
    let (worst, rest) = levels.split_at(2);
    let silent = [("silent", count(SILENT))];
    let none = [("no record", count(0))];
    let all = worst.iter().chain(&silent).chain(rest).chain(&none);
    let given = all.filter(|(_, seconds)| 0 < *seconds);
    given
        .map(|(word, seconds)| format!("{word} {}", length(*seconds)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Puts the present level of an application into its last slot, if it is worse.
pub fn add_present(slots: &mut [u8], level: v1::Level, is_silent: bool) {
    let Some(last) = slots.last_mut() else { return };
    let rank = |slot: u8| shown(slot).map_or(0, |(_, height)| height);
    let own = if is_silent { SILENT } else { level as i32 as u8 };
    if rank(*last) < rank(own) {
        *last = own;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::Level::{Active, Blocked, Error};

    #[test]
    fn equal_slots_are_one_bar_and_the_label_has_the_sums() {
        let (active, error) = (Active as i32 as u8, Error as i32 as u8);
        let slots = [vec![0; 40], vec![active; 5], vec![error, active, SILENT]].concat();
        let mut html = Html::default();
        add(&mut html, &slots, "Last 24 hours", 1800);
        let text = html.as_str();
        let label = "Last 24 hours: error 30m, silent 30m, active 3h, no record 20h";
        assert!(text.contains(&format!("aria-label=\"{label}\"")), "{text}");
        assert!(text.contains("<path class=\"none\" d=\"M0 15.5H40\"/>"), "{text}");
        assert!(
            text.contains("<rect class=\"error\" x=\"45\" y=\"0\" width=\"1\" height=\"16\"/>")
        );
        assert_eq!(text.matches("<rect").count(), 4, "{text}");
    }

    #[test]
    fn the_last_slot_has_the_present_level_if_that_is_worse() {
        let last = |slot: v1::Level, level, is_silent| {
            let mut slots = [0, slot as i32 as u8];
            add_present(&mut slots, level, is_silent);
            slots[1]
        };
        assert_eq!(last(Active, Error, false), Error as i32 as u8);
        assert_eq!(last(Error, Active, false), Error as i32 as u8);
        assert_eq!(last(Active, Active, true), SILENT);
        assert_eq!(last(Blocked, Active, true), Blocked as i32 as u8);
    }

    #[test]
    fn worse_is_higher_and_fits() {
        let heights: Vec<usize> = LEVELS.iter().map(|level| height(*level)).collect();
        assert!(heights.is_sorted_by(|worse, better| better < worse), "{heights:?}");
        assert!(heights.iter().all(|height| *height <= HEIGHT), "{heights:?}");
    }
}

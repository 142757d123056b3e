//! Natural order: `web/2` before `web/10`.

use std::cmp::Ordering;

/// Compares with runs of digits taken as numbers; names that differ only in leading zeros keep a
/// fixed order.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while !left.is_empty() && !right.is_empty() {
        let ((x, after_x), (y, after_y)) = (run(left), run(right));
        let order = match (is_number(x), is_number(y)) {
            (true, true) => {
                let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
                // Without leading zeros the longer number is the larger one.
                x.len().cmp(&y.len()).then_with(|| x.cmp(y))
            }
            _ => x.cmp(y),
        };
        if order.is_ne() {
            return order;
        }
        (left, right) = (after_x, after_y);
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Splits off the first run of digits or of anything else.
fn run(text: &str) -> (&str, &str) {
    let digits = is_number(text);
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    text.split_at(end)
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_numbers() {
        let mut names = vec![
            "web/10",
            "web/2",
            "db/1",
            "web",
            "web-2/1",
            "web/02",
            "web/1",
            "w10b2",
            "w10b10",
            "web/99999999999999999999999",
            "web/100000000000000000000000",
        ];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(
            names,
            [
                "db/1",
                "w10b2",
                "w10b10",
                "web",
                "web-2/1",
                "web/1",
                "web/02",
                "web/2",
                "web/10",
                "web/99999999999999999999999",
                "web/100000000000000000000000",
            ]
        );
    }
}

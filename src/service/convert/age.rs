//! The age of something in one number: the rule of the command line and of the status page.

/// Formats seconds as one number: `59s`, `59m`, `47h`, then days: `2d`.
pub fn short(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_one_number_and_hours_go_to_two_days() {
        for (seconds, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3_599, "59m"),
            (3_600, "1h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (8_640_000, "100d"),
        ] {
            assert_eq!(short(seconds), expected);
        }
    }
}

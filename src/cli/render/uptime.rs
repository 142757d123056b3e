//! How long an application was well, as text.

use crate::cli::{level, span};
use crate::proto::v1::{GetUptimeResponse, Level};

/// Formats the times, one a line.
pub fn render(name: &str, found: &GetUptimeResponse) -> String {
    let length = |given: Option<prost_types::Duration>| span::from_wire(given).unwrap_or_default();
    let words = |given| span::exact(length(given));
    let percent = match found.percent {
        Some(percent) => format!("{}%", rounded_down(percent)),
        None => "unknown".to_string(),
    };
    let episodes = match found.episode_count {
        0 => "none".to_string(),
        count => format!("{count}, the longest {}", words(found.longest_episode)),
    };
    let mut lines = vec![
        (name.to_string(), percent),
        ("well".to_string(), words(found.well)),
        ("not well".to_string(), words(found.not_well)),
        ("episodes".to_string(), episodes),
    ];
    let parts = [("silent", found.silent), ("planned", found.planned), ("unknown", found.unknown)];
    let parts = parts.into_iter().filter(|(_, part)| !length(*part).is_zero());
    lines.extend(parts.map(|(part, given)| (part.to_string(), words(given))));
    lines.extend(
        found
            .levels
            .iter()
            // The unknown time has a line already.
            .filter(|one| one.level() != Level::Unknown)
            .map(|one| (format!("at {}", level::word(one.level)), words(one.duration))),
    );
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    lines.iter().map(|(label, value)| format!("{label:<width$}  {value}\n")).collect()
}

/// Formats a share with at most four decimals. It is never rounded up to 100.
fn rounded_down(percent: f64) -> String {
    let text = format!("{:.4}", (percent * 10_000.0).floor() / 10_000.0);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::LevelDuration;

    #[test]
    fn the_times_are_listed_and_what_is_zero_is_left_out() {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let found = GetUptimeResponse {
            percent: Some(99.999_99),
            well: seconds(90_000),
            not_well: seconds(60),
            unknown: seconds(3600),
            episode_count: 2,
            longest_episode: seconds(40),
            levels: vec![
                LevelDuration { level: Level::Unknown.into(), duration: seconds(3600) },
                LevelDuration { level: Level::Error.into(), duration: seconds(60) },
            ],
            ..GetUptimeResponse::default()
        };
        let expected = "\
web       99.9999%
well      1d1h
not well  1m
episodes  2, the longest 40s
unknown   1h
at error  1m
";
        assert_eq!(render("web", &found), expected);
        let nothing = render("web", &GetUptimeResponse::default());
        assert!(nothing.starts_with("web       unknown\n"), "{nothing}");
        for (percent, text) in [(100.0, "100"), (60.0, "60"), (66.666_67, "66.6666"), (0.0, "0")] {
            assert_eq!(rounded_down(percent), text);
        }
    }
}

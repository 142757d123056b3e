//! The headline: how many applications need attention, readable from afar.

use super::group::Tally;
use super::html::Html;

/// Returns the headline as the content of a heading: each class with its shape, the worst first,
/// then what is under way and fine.
pub fn of(tally: &Tally) -> Html {
    let mut html = Html::default();
    let person = if tally.blocked == 1 { "needs a person" } else { "need a person" };
    let classes = [
        ("error", tally.error, "in error"),
        ("blocked", tally.blocked, person),
        ("silent", tally.silent, "silent"),
    ];
    for (class, count, words) in classes.into_iter().filter(|(_, count, _)| 0 < *count) {
        html.fill(r#"<span class="s {}">{} {}</span> "#, &[&class, &count, &words]);
    }
    match (tally.attention(), tally.way) {
        (0, 0) => html.fill(r#"<span class="s active">All {} fine</span>"#, &[&tally.fine]),
        (0, _) => html.fill("<span>{}</span>", &[&tally.rest()]),
        _ => html.fill(r#"<span class="rest">{}</span>"#, &[&tally.rest()]),
    };
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_without_applications_is_left_out() {
        let shown = |tally: Tally| {
            let html = of(&tally);
            let text = html.as_str().split('<').filter_map(|part| part.split_once('>'));
            text.map(|(_, text)| text).collect::<String>().trim().to_string()
        };
        let tally = Tally { error: 1, blocked: 3, silent: 4, way: 14, fine: 18 };
        let expected = "1 in error 3 need a person 4 silent 14 under way, 18 fine";
        assert_eq!(shown(tally), expected);
        assert_eq!(shown(Tally { blocked: 1, ..Tally::default() }), "1 needs a person");
        assert_eq!(shown(Tally { way: 14, fine: 26, ..Tally::default() }), "14 under way, 26 fine");
        assert_eq!(shown(Tally { fine: 40, ..Tally::default() }), "All 40 fine");
        assert!(of(&Tally { fine: 40, ..Tally::default() }).as_str().contains("s active"));
    }
}

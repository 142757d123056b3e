//! What led to the winner: the check of its reporter, or the place that it was imported from.

use crate::proto::v1::Contribution;

/// The label of an imported status: its source, and the part of the world that it is from.
pub const IMPORTED_FROM: &str = "imported-from";

/// Returns the label of the line and its text. The check of an imported status is the field of the
/// source that decided its level.
pub fn line(winner: &Contribution) -> Option<(&'static str, String)> {
    let check = &winner.check;
    match winner.labels.get(IMPORTED_FROM) {
        Some(origin) if check.is_empty() => Some(("from", origin.clone())),
        Some(origin) => Some(("from", format!("{origin}: {check}"))),
        None => (!check.is_empty()).then(|| ("check", check.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(origin: Option<&str>, check: &str) -> Option<(&'static str, String)> {
        let labels = origin.map(|origin| (IMPORTED_FROM.to_string(), origin.to_string()));
        let labels = labels.into_iter().collect();
        line(&Contribution { check: check.into(), labels, ..Contribution::default() })
    }

    #[test]
    fn an_imported_status_names_its_source_and_the_field() {
        let from = |text: &str| Some(("from", text.to_string()));
        let field = "condition Ready=False reason ImagePullBackOff";
        assert_eq!(check(Some("kubernetes"), field), from(&format!("kubernetes: {field}")));
        assert_eq!(check(Some("systemd/db-1"), ""), from("systemd/db-1"));
        assert_eq!(check(None, "disk is full"), Some(("check", "disk is full".to_string())));
        assert_eq!(check(None, ""), None);
    }
}

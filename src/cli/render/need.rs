//! Names what is needed.

use crate::cli::render::one_line;
use crate::proto::v1::Need;
use crate::proto::v1::need::Object;

/// Names an object: `data`, `infra/dns`, or the words for something outside. The namespace is left
/// out if it is `home`.
pub fn name(need: &Need, home: Option<&str>) -> String {
    match &need.object {
        Some(Object::Application(needed)) if home == Some(&*needed.namespace) => {
            one_line(&needed.application)
        }
        Some(Object::Application(needed)) => {
            one_line(&format!("{}/{}", needed.namespace, needed.application))
        }
        Some(Object::Outside(words)) => one_line(words),
        None => "-".to_string(),
    }
}

/// Returns the namespace of an application; `None` for something outside.
pub fn namespace(need: &Need) -> Option<&str> {
    match &need.object {
        Some(Object::Application(needed)) => Some(&needed.namespace),
        _ => None,
    }
}

/// Formats `web`, `web and 1 more`.
pub fn first_and_count(first: &str, more: usize) -> String {
    match more {
        0 => first.to_string(),
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::ApplicationNeed;

    #[test]
    fn a_namespace_is_named_unless_it_is_that_of_the_reader() {
        let needed = ApplicationNeed {
            namespace: "infra".into(),
            application: "dns".into(),
            ..ApplicationNeed::default()
        };
        let need = Need { object: Some(Object::Application(needed)) };
        assert_eq!(name(&need, Some("infra")), "dns");
        assert_eq!(name(&need, Some("prod")), "infra/dns");
        assert_eq!(name(&need, None), "infra/dns");
        let words = Need { object: Some(Object::Outside("quota\u{1b}[2J of\nprod".into())) };
        assert_eq!(name(&words, None), "quota [2J of prod");
    }
}

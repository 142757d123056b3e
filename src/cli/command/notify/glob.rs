//! Patterns of names: `*` stands for any characters, `?` for one.

/// Whether a name is like one of the patterns; with no pattern every name is.
pub fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
}

/// Whether a pattern stands for one name alone.
pub fn is_name(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

/// Whether a name is like a pattern. Takes no more than their product of steps.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut read) = (0, 0);
    // The last star, and how much of the name it has taken.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, read) = (place + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_what_it_is_like() {
        for (pattern, name, expected) in [
            ("web", "web", true),
            ("web", "web2", false),
            ("web*", "web-frontend", true),
            ("*web", "old-web", true),
            ("w*b*d", "web-frontend", true),
            ("w*b*d", "web-front", false),
            ("we?", "web", true),
            ("we?", "we", false),
            ("*", "", true),
            ("", "web", false),
            ("**", "web", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(matches_any(&[], "web"));
        assert!(is_name("web") && !is_name("we?"));
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let pattern = "*a".repeat(120);
        assert!(!matches(&pattern, &"a".repeat(119)));
        assert!(!matches(&pattern, &format!("{}b", "a".repeat(252))));
    }
}

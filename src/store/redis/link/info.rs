//! Names with values, as Redis reports them in lines of `name:value`.

use std::collections::BTreeMap;

/// Names with values.
#[derive(Debug, Clone, Default)]
pub(crate) struct InfoFields(pub(crate) BTreeMap<String, String>);

impl InfoFields {
    /// Parses lines of `name:value`.
    pub(crate) fn of_lines(text: &str) -> InfoFields {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        InfoFields(lines.map(|(name, value)| (name.into(), value.trim().into())).collect())
    }

    /// Returns a value, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a value; empty if it is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Returns a value that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    /// Returns the version of Redis that the server is compatible with.
    pub(crate) fn version(&self) -> (u32, u32) {
        let mut parts = self.text("redis_version").split('.').map(|n| n.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_far_as_they_go() {
        let version = |text| InfoFields::of_lines(&format!("redis_version:{text}\r\n")).version();
        assert_eq!(version("7.0.15"), (7, 0));
        assert_eq!(version("8.x-rc1"), (8, 0));
        assert_eq!(version(""), (0, 0));
    }
}

//! The name of the installation, for its status page.

use std::str::FromStr;

use serde::Deserialize;

/// Characters of a name.
const CHARS_MAX: usize = 64;

/// A name of an installation: 1 to 64 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PageName(Box<str>);

impl PageName {
    /// Returns the name.
    pub fn into_text(self) -> Box<str> {
        self.0
    }
}

/// A name that no page can show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("page_name must have 1 to {CHARS_MAX} characters, none of them a control character")]
pub struct PageNameInvalid;

impl FromStr for PageName {
    type Err = PageNameInvalid;

    fn from_str(text: &str) -> Result<PageName, PageNameInvalid> {
        let text = text.trim();
        let is_short = (1..=CHARS_MAX).contains(&text.chars().count());
        match is_short && !text.contains(char::is_control) {
            true => Ok(PageName(text.into())),
            false => Err(PageNameInvalid),
        }
    }
}

impl TryFrom<String> for PageName {
    type Error = PageNameInvalid;

    fn try_from(text: String) -> Result<PageName, PageNameInvalid> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_characters_that_a_page_can_show() {
        let name = |text: &str| text.parse().map(PageName::into_text);
        assert_eq!(name(" shop-eu ").as_deref(), Ok("shop-eu"));
        assert_eq!(name(&"ü".repeat(64)).as_deref(), Ok(&*"ü".repeat(64)));
        for text in ["", "  ", "a\nb", &"a".repeat(65)] {
            assert_eq!(name(text), Err(PageNameInvalid), "{text:?}");
        }
    }
}

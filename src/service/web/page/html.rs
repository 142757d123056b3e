//! HTML in which every text of a user is escaped: markup is a constant of the program, all else is
//! text.

use std::fmt::Display;

use crate::domain::shown::is_unsafe;

/// A piece of a page.
#[derive(Debug, Default)]
pub struct Html(String);

impl Html {
    /// Adds markup of the program.
    pub fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Adds text, also within a quoted attribute.
    pub fn text(&mut self, text: impl Display) -> &mut Html {
        for one in text.to_string().chars() {
            match one {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(one),
                one if is_unsafe(one) => self.0.push('\u{fffd}'),
                one => self.0.push(one),
            }
        }
        self
    }

    /// Adds markup of the program with a text in place of each `{}`.
    pub fn fill(&mut self, markup: &'static str, texts: &[&dyn Display]) -> &mut Html {
        debug_assert_eq!(markup.matches("{}").count(), texts.len(), "{markup}");
        let mut parts = markup.split("{}");
        self.raw(parts.next().unwrap_or_default());
        for (part, text) in parts.zip(texts) {
            self.text(text).raw(part);
        }
        self
    }

    /// Adds a text after a label; neither if the text is empty.
    pub fn labelled(&mut self, label: &'static str, text: &str) -> &mut Html {
        match text.is_empty() {
            true => self,
            false => self.raw(label).text(text),
        }
    }

    /// Adds an element with a text and one class.
    pub fn element(&mut self, open: &'static str, text: impl Display, close: &'static str) {
        self.raw(open).text(text).raw(close);
    }

    /// Adds another piece.
    pub fn append(&mut self, other: &Html) -> &mut Html {
        self.0.push_str(&other.0);
        self
    }

    /// Returns the bytes of the piece.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the text, in place.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_a_text() {
        let mut html = Html::default();
        html.raw("<p title=\"")
            .text("\"><script>alert('1')</script>&\u{202e}\0\u{200b}")
            .raw("\">");
        let expected = "<p title=\"&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;\
                        \u{fffd}\u{fffd}\u{fffd}\">";
        assert_eq!(html.as_str(), expected);
    }
}

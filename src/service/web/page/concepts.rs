//! The page of concepts, for readers of the status page who have no copy of the documents:
//! docs/concepts.md of the same source.

use super::html::Html;

/// Where the page is.
pub const PATH: &str = "/concepts";

/// Its text. The marks in it are those that [`add`] knows.
const TEXT: &str = include_str!("../../../../docs/concepts.md");

/// Adds the text, after the attributes of the main part.
pub fn add(html: &mut Html) {
    html.raw(r#"><article class="page">"#);
    let mut lines = TEXT.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            html.element("<pre><code>", code.join("\n"), "</code></pre>");
        } else if let Some(title) = line.strip_prefix("# ") {
            html.element("<h1>", title, "</h1>");
        } else if let Some(title) = line.strip_prefix("## ") {
            html.fill(r#"<h2 id="{}">"#, &[&anchor(title)]).text(title).raw("</h2>");
        } else if !line.is_empty() {
            let mut block = vec![line];
            while let Some(next) = lines.next_if(|next| !next.is_empty()) {
                block.push(next);
            }
            add_block(html, &block);
        }
    }
    html.raw("</article>");
}

/// Adds a table, a list or a paragraph.
fn add_block(html: &mut Html, block: &[&str]) {
    if block[0].starts_with('|') {
        html.raw("<table>");
        for row in block.iter().filter(|row| !row.starts_with("|---")) {
            html.raw("<tr>");
            for cell in row.trim_matches('|').split('|') {
                html.raw("<td>");
                add_line(html, cell.trim());
                html.raw("</td>");
            }
            html.raw("</tr>");
        }
        html.raw("</table>");
    } else if block[0].starts_with("- ") {
        html.raw("<ul>");
        for item in block.join(" ").trim_start_matches("- ").split(" - ") {
            html.raw("<li>");
            add_line(html, item);
            html.raw("</li>");
        }
        html.raw("</ul>");
    } else {
        html.raw("<p>");
        add_line(html, &block.join(" "));
        html.raw("</p>");
    }
}

/// Adds a text with code, emphasis and links. Of a link to another document, its file remains.
fn add_line(html: &mut Html, text: &str) {
    for (n, part) in text.split('`').enumerate() {
        if n % 2 == 1 {
            html.element("<code>", part, "</code>");
            continue;
        }
        for (n, part) in part.split("**").enumerate() {
            html.raw(if n % 2 == 1 { "<b>" } else { "" });
            add_links(html, part);
            html.raw(if n % 2 == 1 { "</b>" } else { "" });
        }
    }
}

fn add_links(html: &mut Html, text: &str) {
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[')
        && let Some((name, after)) = link.split_once("](")
        && let Some((target, after)) = after.split_once(')')
    {
        html.text(before.replace('*', ""));
        match target.starts_with('#') {
            true => html.fill(r#"<a href="{}">{}</a>"#, &[&target, &name]),
            false => html.fill("{} (docs/{})", &[&name, &target]),
        };
        rest = after;
    }
    html.text(rest.replace('*', ""));
}

/// Returns the name of a heading in links.
fn anchor(title: &str) -> String {
    let kept = title.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_whole_text_without_marks() {
        let mut html = Html::default();
        add(&mut html);
        let text = html.as_str();
        for expected in [
            "<h1>Concepts</h1>",
            "<h2 id=\"the-seven-levels\">The seven levels</h2>",
            "<td><code>blocked</code></td>",
            "<pre><code>bellwether report web/0 --level blocked",
            "<a href=\"#errors\">report the error</a>",
            "<h2 id=\"errors\">",
            "More (docs/leadership.md)",
            "<li>It stores no measurements over time.</li>",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        for mark in ["**", "](", "|", "```", "\n## "] {
            assert!(!text.contains(mark), "{mark}: {text}");
        }
        let words = |text: &str| text.split_whitespace().count();
        assert!(words(TEXT) * 8 / 10 < words(text), "a part is left out");
    }
}

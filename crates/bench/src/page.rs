//! Writes figures into a page of documentation: replaces a block of it.
//!
//! ```text
//! <!-- begin: bench all -->
//! (replaced)
//! <!-- end: bench all -->
//! ```

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Checks that the page has such a block.
pub fn check(path: &Path, block: &str) -> anyhow::Result<()> {
    with_block(path, block, "").map(drop)
}

/// Replaces a block by this text, as a code block.
pub fn write(path: &Path, block: &str, text: &str) -> anyhow::Result<()> {
    let page = with_block(path, block, text)?;
    fs::write(path, page).with_context(|| format!("write {}", path.display()))
}

fn with_block(path: &Path, block: &str, text: &str) -> anyhow::Result<String> {
    let page = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    replaced(&page, block, text)
        .with_context(|| format!("{} has no block \"begin: {block}\" that ends", path.display()))
}

fn replaced(page: &str, block: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- begin: {block} -->\n"), format!("<!-- end: {block} -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n```text\n{text}```\n\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_replaced_and_nothing_else() {
        let page = "# A\n\n<!-- begin: x -->\nold\n<!-- end: x -->\n\nmore\n";
        let once = replaced(page, "x", "new\n").unwrap();
        let expected = "# A\n\n<!-- begin: x -->\n\n```text\nnew\n```\n\n<!-- end: x -->\n\nmore\n";
        assert_eq!(once, expected);
        assert_eq!(replaced(&once, "x", "new\n").unwrap(), once);
        for page in ["", "<!-- begin: x -->\n", "<!-- end: x -->"] {
            assert_eq!(replaced(page, "x", "new\n"), None, "{page}");
        }
    }
}

//! Rules about every file of the tree: valid links, line widths, and forbidden words.

use std::fs;
use std::path::{Path, PathBuf};

const MARKDOWN_COLUMNS_MAX: usize = 120;

/// Folders of generated files.
const MADE: &[&str] =
    &[".git", ".tools", "__pycache__", "bellwether-data", "node_modules", "target"];

/// Text that belongs to one machine and not to the project, and leftovers. The spelling keeps this
/// file free of the words.
const FORBIDDEN: &[&str] = &[
    concat!("registry.npmjs", ".org"),
    concat!("pypi", ".org"),
    concat!("files.pythonhosted", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("sum.golang", ".org"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("deb.debian", ".org"),
    concat!("security.debian", ".org"),
    concat!("repo.maven.apache", ".org"),
    concat!("/wo", "rk/"),
    concat!("../sh", "ared"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
];

#[test]
fn documents_are_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut errors = Vec::new();
    for (path, text) in text_files(root) {
        errors.extend(forbidden_words(&path, &text));
        if path.ends_with(".md") {
            let read = |path: &str| fs::read_to_string(root.join(path)).ok();
            let exists = |path: &str| root.join(path).exists();
            errors.extend(links(&path, &text, &exists, &read));
            // The vectors are a contract and are not edited.
            if !path.starts_with("tests/vectors/") {
                errors.extend(columns(&path, &text));
            }
        }
    }
    assert!(errors.is_empty(), "{} untidy:\n{}", errors.len(), errors.join("\n"));
}

fn forbidden_words(path: &str, text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for word in FORBIDDEN.iter().filter(|word| line.contains(**word)) {
            errors.push(format!("{path}:{}: {word} has no place here", i + 1));
        }
    }
    errors
}

fn columns(path: &str, text: &str) -> Vec<String> {
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| MARKDOWN_COLUMNS_MAX < line.chars().count())
        .map(|(number, _)| format!("{path}:{number}: wider than {MARKDOWN_COLUMNS_MAX} columns"))
        .collect()
}

/// Checks that every relative link leads to an existing file, and its `#part` to a heading in it.
fn links(
    path: &str,
    text: &str,
    exists: &dyn Fn(&str) -> bool,
    read: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut errors = Vec::new();
    for (number, target) in link_targets(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, part) = target.split_once('#').unwrap_or((target, ""));
        let file = match file {
            "" => path.to_string(),
            file => resolved(path, file),
        };
        if !exists(&file) {
            errors.push(format!("{path}:{number}: no such file: {target}"));
        } else if !part.is_empty() {
            let linked = read(&file).unwrap_or_default();
            if !prose(&linked).any(|(_, line)| heading(line).as_deref() == Some(part)) {
                errors.push(format!("{path}:{number}: no such heading: {target}"));
            }
        }
    }
    errors
}

/// Returns the lines outside fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (at, open) in line.match_indices("](") {
            let rest = &line[at + open.len()..];
            found.extend(rest.find(')').map(|end| (number, &rest[..end])));
        }
    }
    found
}

/// Returns `target` relative to the folder of `path`, without `.` and `..`.
fn resolved(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => (),
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchor of a heading, as the usual renderers make it.
fn heading(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = title.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
    });
    Some(kept.collect())
}

fn text_files(root: &Path) -> Vec<(String, String)> {
    let mut pending: Vec<PathBuf> = vec![root.to_path_buf()];
    let mut found = Vec::new();
    while let Some(path) = pending.pop() {
        let name = path.strip_prefix(root).expect("is under the root");
        let name = name.to_string_lossy().replace('\\', "/");
        if MADE.contains(&name.rsplit('/').next().unwrap_or("")) {
            continue;
        }
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("folder is readable");
            pending.extend(entries.map(|entry| entry.expect("entry is readable").path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push((name, text));
        }
    }
    found.sort();
    found
}

#[test]
fn each_forbidden_word_is_named() {
    for word in FORBIDDEN {
        let text = format!("fine\nsee {word} there\n");
        assert_eq!(forbidden_words("a.md", &text), [format!("a.md:2: {word} has no place here")]);
    }
    assert_eq!(forbidden_words("a.md", "a worker's session"), [""; 0]);
}

#[test]
fn a_link_to_nowhere_is_named() {
    let exists = |path: &str| ["README.md", "docs/a.md", "docs/b.md"].contains(&path);
    let read =
        |_: &str| Some("# Title\n## What it is, `now`\n```\n# no heading\n```\n".to_string());
    let said = |text: &str| links("docs/a.md", text, &exists, &read);
    assert_eq!(said("[a](b.md) [b](../README.md) [c](https://x.org/y)"), [""; 0]);
    assert_eq!(said("[a](b.md#what-it-is-now) [b](#title)"), [""; 0]);
    assert_eq!(said("```\n[a](c.md)\n```"), [""; 0]);
    assert_eq!(said("\n[a](c.md)"), ["docs/a.md:2: no such file: c.md"]);
    assert_eq!(said("[a](b.md#no-heading)"), ["docs/a.md:1: no such heading: b.md#no-heading"]);
}

#[test]
fn a_wide_line_is_named() {
    let text = format!("short\n{}\n", "ä".repeat(121));
    assert_eq!(columns("a.md", &text), ["a.md:2: wider than 120 columns"]);
}

/// The name of a decision is how its title begins, and the index lists each decision.
#[test]
fn each_decision_is_named_by_its_title_and_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/adr");
    let index = fs::read_to_string(folder.join("0000-how-we-record-decisions.md")).unwrap();
    let mut errors = Vec::new();
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            errors.extend(misnamed(&name, &fs::read_to_string(entry.path()).unwrap()));
            let is_listed = name.starts_with("0000-") || index.contains(&format!("]({name})"));
            errors.extend((!is_listed).then(|| format!("{name}: the index lacks it")));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// Returns what is wrong with the name of a decision, whose first line is its title.
fn misnamed(name: &str, text: &str) -> Option<String> {
    let title = text.lines().next().unwrap_or_default().to_lowercase().replace('\'', "");
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let expected = words.collect::<Vec<_>>().join("-") + "-";
    let begins = expected.starts_with(&name.replace(".md", "-"));
    (!begins).then(|| format!("{name}: the title begins otherwise: {expected}"))
}

#[test]
fn a_decision_under_another_name_is_found() {
    let text = "# 0007. The store's time, and \"its\" pace\n\nStatus: accepted\n";
    for name in ["0007-the-stores-time.md", "0007-the-stores-time-and-its-pace.md"] {
        assert_eq!(misnamed(name, text), None);
    }
    for name in ["0007-the-stores-ti.md", "0008-the-stores-time.md", "0007-what-a-clock-says.md"] {
        assert!(misnamed(name, text).is_some(), "{name}");
    }
}

/// The design page of Redis names the arguments of the commit script in their order, and each exit.
#[test]
fn the_design_page_has_the_arguments_and_exits_of_the_commit_script() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/design/redis.md")).unwrap();
    let scripts = text_files(&root.join("src"));
    let (_, script) = scripts.iter().find(|(name, _)| name.ends_with("commit.lua")).unwrap();
    assert_eq!(listed_arguments(&page), arguments(script));
    for cause in causes(script) {
        assert!(page.contains(&format!("\n| `{cause}` |")), "the page lacks the exit {cause}");
    }
    assert_eq!(causes(script).len(), 5);
}

/// Returns the names that the script gives its first arguments.
fn arguments(script: &str) -> Vec<&str> {
    let (before, _) = script.split_once(" = unpack(ARGV").expect("the script names its arguments");
    let (_, names) = before.rsplit_once("local ").expect("the names are local");
    names.split(',').map(str::trim).collect()
}

/// Returns the names in the first column of the rows that begin with a number.
fn listed_arguments(page: &str) -> Vec<&str> {
    let (_, section) = page.split_once("### Arguments\n").expect("the page has the section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let numbered = rows.filter(|row| row.starts_with(|first: char| first.is_ascii_digit()));
    let named = numbered.map(|row| row.split(" |").next().unwrap_or_default().split('`'));
    named.flat_map(|parts| parts.skip(1).step_by(2)).collect()
}

/// Returns the causes of the conflicts that the script answers.
fn causes(script: &str) -> Vec<&str> {
    let answers = script.split("return {0, current, '").skip(1);
    answers.filter_map(|rest| rest.split('\'').next()).collect()
}

#[test]
fn an_argument_that_the_page_lacks_is_found() {
    let script = "local a, b = unpack(KEYS)\nlocal name,\n  base = unpack(ARGV, 1, 2)\n";
    assert_eq!(arguments(script), ["name", "base"]);
    let page = "### Arguments\n\n| `KEYS` | heads |\n| 1 `name` | `text` |\n| 2 on | more |\n";
    assert_eq!(listed_arguments(page), ["name"]);
    assert_eq!(causes("return {0, current, 'quiet'}\n"), ["quiet"]);
}

/// Pages that are read first, with the words that they may have.
const SHORT: &[(&str, usize)] = &[("README.md", 900), ("docs/concepts.md", 1200)];

#[test]
fn the_pages_that_are_read_first_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (page, words_max) in SHORT {
        let words = words(&fs::read_to_string(root.join(page)).unwrap());
        println!("{page}: {words} words");
        assert!(words <= *words_max, "{page} has {words} words, {words_max} at most");
    }
    assert_eq!(words("# One\n\n```sh\ntwo --three\n```\n"), 6, "counts blocks and marks too");
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Each place where a new reader begins leads to the page of concepts in its first lines.
#[test]
fn the_concepts_are_linked_where_readers_begin() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (place, link, lines) in [
        ("README.md", "(docs/concepts.md)", 5),
        ("docs/tutorial.md", "(concepts.md)", 6),
        ("docs/SUMMARY.md", "(concepts.md)", 9),
        ("src/cli/command/report.rs", "`bellwether explain concepts`", 40),
        ("src/service/web/page/empty.rs", "href=\\\"/concepts\\\"", 40),
        ("src/service/web/page/frame.rs", "href=\\\"/concepts\\\"", 200),
    ] {
        let text = fs::read_to_string(root.join(place)).unwrap();
        let first: Vec<&str> = text.lines().take(lines).collect();
        assert!(first.join("\n").contains(link), "{place} has no {link} in its first lines");
    }
}

/// Every reason that the server sends has an explanation in the documents.
#[test]
fn every_reason_that_is_sent_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let code = fs::read_to_string(root.join("src/service/code/mod.rs")).unwrap();
    let page = fs::read_to_string(root.join("docs/errors.md")).unwrap();
    let is_reason = |text: &&str| text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let table = code.split("fn wire").nth(1).unwrap().split("/// What is wrong").next().unwrap();
    let reasons: Vec<&str> =
        table.split('"').skip(1).step_by(2).filter(|t| !t.is_empty()).filter(is_reason).collect();
    assert!(10 < reasons.len(), "the table has moved: {reasons:?}");
    for reason in reasons {
        assert!(page.contains(&format!("### {reason}\n")), "docs/errors.md lacks {reason}");
    }
}

/// The newest release of the changelog is this version, with notes on the upgrade. Only new entries
/// are above it.
#[test]
fn the_changelog_has_this_version_with_its_upgrade() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
    let mut sections = text.split("\n## ").skip(1);
    assert!(sections.next().unwrap().starts_with("Unreleased\n"), "begins with what comes next");
    let newest = sections.next().expect("has a release");
    let (version, date) = newest.lines().next().unwrap().split_once(" - ").expect("has a date");
    assert_eq!(version, env!("CARGO_PKG_VERSION"), "the newest release");
    let is_date = date.len() == 10 && date.split('-').all(|part| part.parse::<u32>().is_ok());
    assert!(is_date && newest.contains("\n### Upgrade\n"), "{version}: {date}");
}

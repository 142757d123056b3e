//! Plain language, checked as a test: phrases that a reader has to decode do not occur in comments,
//! in the protos and in the documents, and one type name does not stand for many things.
//!
//! `cargo test --test prose -- --nocapture` prints what it counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[path = "prose/glossary.rs"]
mod glossary;

/// Words that stand for a person where the actor is a process, a client or a record.
const PERSONS: &[&str] = &[
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "everybody",
    "anybody",
    "is told",
    "are told",
    "was told",
    "were told",
    "be told",
    "been told",
    "tells nobody",
    "speaks",
    "spoke",
    "who stands",
    "is heard",
    "was heard",
];

/// Definitions by negation, and word order of another language.
const FOREIGN: &[&str] = &[
    "that is none",
    "that are none",
    "go on above",
    "goes on above",
    "all the same",
    "also if",
    "also where",
    "lets go of",
    "let go of",
];

/// First words of a test name without a subject: the name of a test is a sentence about one thing.
const OPENINGS: &[&str] = &["what ", "who ", "whoever ", "so ", "of ", "how ", "elsewhere "];

/// Where one type name may stand for a different thing in each module, because the module's name is
/// read with it: `watch::Error`, `telemetry::Options`.
const QUALIFIED: &[&str] = &[
    "Args", "Error", "Options", "Response", "Future", "State", "Shared", "Limits", "Config",
    "Inner", "Data", "Item", "Event", "Kind", "Err",
];

/// Modules in which one other type name may be defined.
const MODULES_PER_NAME_MAX: usize = 2;

#[test]
fn comments_and_documents_are_in_plain_language() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut faults = Vec::new();
    let (mut files, mut lines) = (0, 0);
    for path in texts(root) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let prose = prose_of(&name, &text);
        files += 1;
        lines += prose.len();
        faults.extend(faults_of(&prose).into_iter().map(|fault| format!("{name}:{fault}")));
    }
    println!("{lines} lines of prose in {files} files, {} phrases to rewrite", faults.len());
    assert!(faults.is_empty(), "rewrite in plain language:\n{}", faults.join("\n"));
}

#[test]
fn test_names_are_in_plain_language() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut faults = Vec::new();
    let mut count = 0;
    for path in texts(root) {
        let names = test_names(&fs::read_to_string(&path).unwrap());
        let path = path.strip_prefix(root).unwrap().display().to_string();
        count += names.len();
        faults.extend(name_faults(&names).into_iter().map(|fault| format!("{path}:{fault}")));
    }
    println!("{count} names of tests, {} to rewrite", faults.len());
    assert!(faults.is_empty(), "rename with a subject and a verb:\n{}", faults.join("\n"));
}

#[test]
fn a_type_name_stands_for_one_thing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut homes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let packages = ["src", "crates/client/src"];
    for path in packages.iter().flat_map(|folder| texts(&root.join(folder))) {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        if !name.ends_with(".rs") || name.contains("/tests") || name.contains("/testing/") {
            continue;
        }
        let module = module_of(&name);
        for defined in types_in(&fs::read_to_string(&path).unwrap()) {
            homes.entry(defined).or_default().insert(module.clone());
        }
    }
    let is_open = |name: &str| !QUALIFIED.contains(&name);
    let crowded: Vec<String> = homes
        .iter()
        .filter(|(name, modules)| is_open(name) && MODULES_PER_NAME_MAX < modules.len())
        .map(|(name, modules)| format!("{name}: {modules:?}"))
        .collect();
    println!("{} type names", homes.len());
    assert!(crowded.is_empty(), "one name for different things:\n{}", crowded.join("\n"));
}

/// Each list has a planted fault, and prose without one passes.
#[test]
fn planted_faults_are_found() {
    for text in [
        "/// Whoever asks gets it.",
        "// The watcher is told.",
        "//! A store that is none.",
        "/// Also if it fails.",
    ] {
        assert_eq!(faults_of(&prose_of("src/x.rs", text)).len(), 1, "{text}");
    }
    for text in [
        "/// Notifies the watcher.",
        "let nobody = 1;",
        "/// Calls `nobody`.",
        "let url = \"redis://nobody:@x\";",
    ] {
        assert!(faults_of(&prose_of("src/x.rs", text)).is_empty(), "{text}");
    }
    for name in ["what_is_sent_arrives", "a_call_disturbs_nobody", "the_watcher_is_told"] {
        let code = format!("#[test]\nfn {name}() {{}}");
        assert_eq!(name_faults(&test_names(&code)).len(), 1, "{name}");
    }
    for code in ["fn what_is_sent() {}", "#[test]\nfn somewhat_is_sent() {}"] {
        assert!(name_faults(&test_names(code)).is_empty(), "{code}");
    }
    let types = types_in(
        "pub struct One;\npub(super) enum Two<T> {\n  type Item = u8;\ntrait Three: Send {\n",
    );
    assert_eq!(types, ["One", "Two", "Three"]);
}

/// `watch` for `src/watch/group.rs`, `client` for `crates/client/src/page.rs`.
fn module_of(path: &str) -> String {
    let inside = path.trim_start_matches("src/").trim_start_matches("crates/");
    inside.trim_end_matches(".rs").split('/').next().unwrap_or_default().to_string()
}

fn types_in(text: &str) -> Vec<String> {
    let heads = text.lines().filter(|line| !line.starts_with(' '));
    let defined = heads.filter_map(|line| {
        let mut words =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let kind = words
            .by_ref()
            .find(|word| !["pub", "super", "crate", "in", "domain"].contains(word))?;
        ["struct", "enum", "trait", "type"].contains(&kind).then(|| words.next())?
    });
    defined.map(str::to_string).collect()
}

/// Source, protos, scripts of Redis and documents.
fn texts(folder: &Path) -> Vec<PathBuf> {
    const KINDS: [&str; 4] = ["rs", "proto", "lua", "md"];
    const OTHERS: [&str; 7] =
        ["target", ".git", ".tools", "vectors", "grpc", "generated", "node_modules"];
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy().into_owned();
        if path.is_dir() && !OTHERS.contains(&&*name) {
            found.extend(texts(&path));
        } else if path.extension().is_some_and(|kind| KINDS.iter().any(|known| kind == *known))
            && name != "prose.rs"
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The names of test functions as sentences, with the numbers of their lines.
fn test_names(text: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    let mut is_test = false;
    for (number, line) in (1..).zip(text.lines().map(str::trim_start)) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let head = line.trim_start_matches("async ").strip_prefix("fn ");
        if let Some(head) = head.filter(|_| is_test) {
            let name = head.split(['(', '<']).next().unwrap_or_default();
            names.push((number, name.replace('_', " ")));
            is_test = false;
        }
    }
    names
}

fn name_faults(names: &[(usize, String)]) -> Vec<String> {
    let opening = |name: &str| OPENINGS.iter().find(|opening| name.starts_with(**opening));
    let openings = names.iter().filter_map(|(number, name)| {
        opening(name).map(|opening| format!("{number}: \"{}...\"", opening))
    });
    openings.chain(faults_of(names)).collect()
}

/// The lines of prose with their numbers, without code in backticks and without blocks of code.
fn prose_of(name: &str, text: &str) -> Vec<(usize, String)> {
    let is_document = name.ends_with(".md");
    let mark = if name.ends_with(".lua") { "--" } else { "//" };
    let mut prose = Vec::new();
    let mut in_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        let said = match is_document {
            true => Some(line),
            false => comment_of(line, mark),
        };
        let Some(said) = said else {
            in_block = false;
            continue;
        };
        if said.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let words = said.split('`').step_by(2).collect::<Vec<_>>().join("`");
            // The target of a link is a name.
            let words: Vec<&str> = words
                .split("](")
                .map(|part| part.split_once(')').map_or(part, |(_, rest)| rest))
                .collect();
            prose.push((number, words.join(" ")));
        }
    }
    prose
}

/// The comment of a line. A mark within a word is an address.
fn comment_of<'t>(line: &'t str, mark: &str) -> Option<&'t str> {
    let starts = line.match_indices(mark).map(|(at, _)| at);
    let at = starts.into_iter().find(|at| line[..*at].ends_with(' ') || *at == 0)?;
    Some(line[at + mark.len()..].trim_start_matches(['/', '!']))
}

fn faults_of(prose: &[(usize, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in prose {
        let line = line.to_lowercase();
        for phrase in PERSONS.iter().chain(FOREIGN) {
            if has_phrase(&line, phrase) {
                faults.push(format!("{number}: \"{phrase}\""));
            }
        }
    }
    faults
}

fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    line.match_indices(phrase).any(|(at, _)| {
        is_edge(line[..at].chars().next_back()) && is_edge(line[at + phrase.len()..].chars().next())
    })
}

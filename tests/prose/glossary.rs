//! One word for one thing: `docs/glossary.md` has each word of users once, and the words and
//! spellings that it refuses occur nowhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{has_phrase, prose_of, texts};

/// Words that users have to learn.
const TERMS_MAX: usize = 60;

/// The one spelling, and others of the same word.
const SPELLINGS: &[(&str, &[&str])] = &[
    ("timeout", &["time-out"]),
    ("setup", &["set-up"]),
    ("backoff", &["back-off"]),
    ("takeover", &["take-over"]),
    ("timestamp", &["time stamp", "time-stamp"]),
    ("metadata", &["meta-data", "meta data"]),
    ("subcommand", &["sub-command"]),
    ("endpoint", &["end-point", "end point"]),
    ("uptime", &["up-time"]),
    ("gRPC", &["GRPC"]),
    ("OpenTelemetry", &["Open Telemetry", "Opentelemetry"]),
    ("JavaScript", &["Javascript"]),
    ("TypeScript", &["Typescript"]),
    ("Kubernetes", &["K8s"]),
    ("behaviour", &["behavior"]),
];

/// A row of the glossary.
struct Term {
    name: String,
    meaning: String,
    refused: Vec<String>,
}

#[test]
fn the_glossary_has_each_word_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let terms = terms(&read(root, "docs/glossary.md"));
    let names: Vec<&str> = terms.iter().map(|term| term.name.as_str()).collect();
    println!("{} terms", names.len());
    assert!(names.len() <= TERMS_MAX, "{} terms, {TERMS_MAX} at most", names.len());
    assert!(30 < names.len(), "the table has moved: {names:?}");
    assert!(names.is_sorted(), "is in alphabetical order: {names:?}");
    assert_eq!(BTreeSet::from_iter(&names).len(), names.len(), "has a word once");
    assert!(terms.iter().all(|term| !term.meaning.is_empty()));
    let architecture = read(root, "ARCHITECTURE.md");
    let of_code = architecture.split("## Glossary").nth(1).unwrap();
    for name in names {
        let again = ["**", " (", ","].map(|end| format!("- **{name}{end}"));
        let is_there_too = again.iter().any(|entry| of_code.contains(entry));
        assert!(!is_there_too, "ARCHITECTURE.md explains {name} too");
    }
}

#[test]
fn each_term_is_used_by_the_documents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = String::new();
    for path in texts(&root.join("docs")).iter().filter(|path| !path.ends_with("glossary.md")) {
        pages.push_str(&fs::read_to_string(path).unwrap().to_lowercase());
    }
    for term in terms(&read(root, "docs/glossary.md")) {
        let plural = format!("{}s", term.name);
        assert!(
            has_phrase(&pages, &term.name) || has_phrase(&pages, &plural),
            "no page says {}",
            term.name
        );
    }
}

#[test]
fn no_other_word_stands_for_a_term() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let refused = refused(&terms(&read(root, "docs/glossary.md")));
    let mut faults = Vec::new();
    for path in texts(root).iter().filter(|path| !path.ends_with("glossary.md")) {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        if name != "tests/prose/glossary.rs" {
            let prose = prose_of(&name, &fs::read_to_string(path).unwrap());
            faults.extend(others(&refused, &prose).into_iter().map(|why| format!("{name}:{why}")));
        }
    }
    assert!(faults.is_empty(), "one word for one thing:\n{}", faults.join("\n"));
}

/// Each column and each spelling has a planted fault.
#[test]
fn other_words_are_found() {
    let glossary = "| Term | Meaning | Not |\n|---|---|---|\n\
                    | ttl | How long | TTL, time to live |\n| unit | One | |\n";
    let found = terms(glossary);
    assert_eq!((found[0].name.as_str(), found[1].refused.len()), ("ttl", 0));
    let refused = refused(&found);
    for text in ["/// Has a TTL.", "// Its Time to live.", "//! After a time-out.", "// By GRPC."] {
        assert_eq!(others(&refused, &prose_of("src/x.rs", text)).len(), 1, "{text}");
    }
    for text in ["/// Has a ttl.", "const TTL: u8 = 1;", "// By `TTL`.", "// By gRPC."] {
        assert!(others(&refused, &prose_of("src/x.rs", text)).is_empty(), "{text}");
    }
}

fn read(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name)).unwrap()
}

/// Reads the rows of the table behind its head.
fn terms(glossary: &str) -> Vec<Term> {
    let rows = glossary.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let others = cells[3].split(',').map(str::trim).filter(|word| !word.is_empty());
        Term {
            name: cells[1].to_string(),
            meaning: cells[2].to_string(),
            refused: others.map(str::to_string).collect(),
        }
    })
    .collect()
}

/// Returns each refused word with the word to use.
fn refused(terms: &[Term]) -> Vec<(String, String)> {
    let of_terms = terms
        .iter()
        .flat_map(|term| term.refused.iter().map(|other| (other.clone(), term.name.clone())));
    let spelt = SPELLINGS.iter().flat_map(|(word, others)| {
        others.iter().map(|other| (other.to_string(), word.to_string()))
    });
    of_terms.chain(spelt).collect()
}

/// Returns where a refused word stands. One in small letters is found in any, another one as it is.
fn others(refused: &[(String, String)], prose: &[(usize, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in prose {
        let small = line.to_lowercase();
        for (other, word) in refused {
            let is_small = *other == other.to_lowercase();
            if has_phrase(if is_small { &small } else { line }, other) {
                found.push(format!("{number}: \"{other}\": write \"{word}\""));
            }
        }
    }
    found
}

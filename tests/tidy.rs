//! Rules about the code itself, checked as a test: layers, purity, names, lengths, leftovers.
//!
//! A rule that a reviewer would have to repeat is a test instead (after TigerBeetle's `tidy.zig`).
//! Each rule is a function over one file; `FAULTS` plants a fault for each and sees it named.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/duplicates.rs"]
mod duplicates;
#[path = "tidy/yardstick.rs"]
mod yardstick;

/// Modules by layer, lowest first. A module imports only from lower layers, so two modules of one
/// layer do not know each other. `src/lib.rs` shows the same table to the reader.
const LAYERS: &[&[&str]] = &[
    &["domain", "proto", "sync"],
    &["store", "telemetry"],
    &["aggregator", "doctor", "security", "watch"],
    &["session"],
    &["service"],
    &["config"],
    &["app"],
    &["cli"],
];

/// The same for the client library.
const CLIENT_LAYERS: &[&[&str]] = &[
    &["backoff", "handshake", "proto", "trace"],
    &["digest", "error", "need"],
    &["security"],
    &["connection"],
    &["link", "operation", "page"],
    &["watch", "worker"],
];

/// The floors of a layer, lowest first: `src/<layer>/mod.rs` shows the same picture.
const FLOORS: &[(&str, &[&[&str]])] = &[
    (
        "src/domain/",
        &[
            &["word"],
            &["level"],
            &["classify"],
            &["model"],
            &["draft"],
            &["rules"],
            &["derive", "replay"],
        ],
    ),
    (
        "src/store/redis/",
        &[
            &["link"],
            &["error", "script"],
            &["record"],
            &["time"],
            &["log"],
            &["commit"],
            &["inspect", "testing", "tests"],
        ],
    ),
    (
        "src/service/",
        &[
            &["descriptor", "log_limit", "memory_age", "offload", "protobuf", "scalars"],
            &["code"],
            &["caller"],
            &["method"],
            &["edge"],
            &["call"],
            &["convert"],
            &["relay", "web"],
            &["options"],
            &["grpc", "ops"],
        ],
    ),
];

/// Modules that may name generated wire types.
const WIRE: &[&str] = &["service", "app", "cli"];

/// Code that no person wrote.
const GENERATED: &str = "crates/client/src/generated";

/// Crates that the domain may name. Everything else is IO or a wire format.
const DOMAIN_CRATES: &[&str] = &[
    "crate",
    "super",
    "self",
    "std",
    "core",
    "bytes",
    "fnv",
    "foldhash",
    "indexmap",
    "serde",
    "smol_str",
    "thiserror",
    // The tables of errors and the rules of an operator are texts of this format.
    "toml",
];

/// Parts of std that reach outside the process, differ between two runs, or share what can change.
const DOMAIN_STD_BANNED: &[&str] = &[
    "env", "fs", "io", "net", "process", "thread", "HashMap", "HashSet", "Mutex", "RwLock",
    "atomic", "mpsc",
];

/// Where the domain may have a hash map: it looks things up there, and lists nothing by it.
const DOMAIN_LOOKUPS: &[&str] = &["src/domain/model/index.rs", "src/domain/model/status/set.rs"];

/// What precedes a module of tests, and one of tests for other crates.
const TESTS: &[&str] = &["#[cfg(test)]", r#"#[cfg(any(test, feature = "testing"))]"#];

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "manager", "models", "types"];

/// What is put there to be taken away again. Spelled so that this file does not hold them.
const LEFTOVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

type Rule = fn(&Source) -> Vec<String>;

/// For the code under `src/`.
const SERVER_RULES: &[Rule] =
    &[layers, floors, wire_at_the_edge, domain_is_pure, draft_has_one_home, no_store_inherits];

/// For the code under `crates/client/src/`.
const CLIENT_RULES: &[Rule] = &[client_layers];

/// For the code of every package, under `src/` and `crates/*/src/`.
const CODE_RULES: &[Rule] = &[no_panics, file_length];

/// For every Rust file, tests too.
const RULES: &[Rule] =
    &[opens_with_purpose, names, imports_are_grouped, leftovers, columns, function_length];

/// A change of the code must not leave a fault of `tests/faults` without the lines that it changes:
/// `make planted-faults` would stop there.
#[test]
fn each_planted_fault_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut lost = Vec::new();
    for entry in fs::read_dir(root.join("tests/faults")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "txt") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let (head, lines) = text.split_once("--- right\n").expect("it has right lines");
        let (right, _) = lines.split_once("\n--- wrong\n").expect("it has wrong lines");
        let file = head.lines().find_map(|line| line.strip_prefix("file: ")).expect("a file");
        let count =
            fs::read_to_string(root.join(file)).map_or(0, |code| code.matches(right).count());
        if count != 1 {
            lost.push(format!("{}: its right lines occur {count} times in {file}", path.display()));
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn the_code_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = repository();
    let code = code_of(&files);
    let mut errors: Vec<String> =
        files.iter().flat_map(|file| RULES.iter().flat_map(|rule| rule(file))).collect();
    for file in &code {
        if file.path.starts_with("src/") {
            errors.extend(SERVER_RULES.iter().flat_map(|rule| rule(file)));
        }
        if file.path.starts_with("crates/client/src/") {
            errors.extend(CLIENT_RULES.iter().flat_map(|rule| rule(file)));
        }
        errors.extend(CODE_RULES.iter().flat_map(|rule| rule(file)));
    }
    errors.extend(module_files(&files));
    let lib = fs::read_to_string(root.join("src/lib.rs")).expect("src/lib.rs is readable");
    errors.extend(layer_table(&lib));
    assert!(errors.is_empty(), "{} untidy:\n{}", errors.len(), errors.join("\n"));
}

/// One Rust file, cut up once for all rules.
struct Source {
    /// Relative to the repository, with `/`.
    path: String,
    /// `domain` for `src/domain/status.rs` and for `src/domain.rs`; empty outside `src/`.
    module: String,
    text: String,
    /// Lines before the inline `#[cfg(test)] mod`, as written.
    lines: Vec<String>,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        let module = path.strip_prefix("src/").map_or("", first_module);
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        let tests = lines.windows(2).position(|pair| {
            pair[0].trim() == "#[cfg(test)]"
                && pair[1].trim_start().starts_with("mod ")
                && pair[1].ends_with('{')
        });
        lines.truncate(tests.unwrap_or(lines.len()));
        Source { path: path.to_string(), module: module.to_string(), text: text.to_string(), lines }
    }

    fn is_entry(&self) -> bool {
        matches!(self.path_in_src(), Some("lib.rs" | "main.rs"))
    }

    /// `status.rs` for `src/status.rs` and for `crates/a/src/status.rs`; nothing for tests.
    fn path_in_src(&self) -> Option<&str> {
        let member = self.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
        member.map_or(self.path.as_str(), |(_, path)| path).strip_prefix("src/")
    }

    /// Lines of code with their numbers, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines
            .iter()
            .enumerate()
            .map(|(i, line)| (i + 1, line.split("//").next().unwrap_or("")))
    }

    /// First line and length of each function. rustfmt closes a function on a line of its own, at
    /// the indentation of its first line.
    fn functions(&self) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for (start, line) in self.lines.iter().enumerate() {
            let body = line.trim_start();
            if !opens_function(body) {
                continue;
            }
            let end_of_head = self.lines[start..].iter().find(|l| l.ends_with(['{', ';', '}']));
            let Some(head) = end_of_head.filter(|l| !l.ends_with(';')) else {
                continue;
            };
            let close = format!("{}}}", &line[..line.len() - body.len()]);
            let last = match head.ends_with('}') {
                true => Some(0),
                false => self.lines[start..].iter().position(|l| *l == close),
            };
            found.extend(last.map(|last| (start + 1, last + 1)));
        }
        found
    }
}

/// `domain` for `domain/status.rs` and for `domain.rs`.
fn first_module(path: &str) -> &str {
    path.split('/').next().unwrap_or("").trim_end_matches(".rs")
}

fn opens_function(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub") || ["const", "async", "unsafe", "default"].contains(word)
    });
    words.next() == Some("fn")
}

fn layer(module: &str) -> Option<usize> {
    layer_in(LAYERS, module)
}

fn layer_in(table: &[&[&str]], module: &str) -> Option<usize> {
    table.iter().position(|names| names.contains(&module))
}

fn word_at(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// `crate::x` points down.
fn layers(file: &Source) -> Vec<String> {
    points_down(file, LAYERS, &file.module)
}

/// Within a layer, a file names only floors below its own.
fn floors(file: &Source) -> Vec<String> {
    let Some((folder, table)) = FLOORS.iter().find(|(folder, _)| file.path.starts_with(folder))
    else {
        return Vec::new();
    };
    let path = &file.path;
    let module = first_module(&path[folder.len()..]);
    if module == "mod" {
        return Vec::new();
    }
    let Some(own) = layer_in(table, module) else {
        return vec![format!("{path}: `{module}` is on no floor")];
    };
    let inner = folder.trim_start_matches("src/").replace('/', "::");
    let layer = format!("crate::{inner}");
    let mut errors = Vec::new();
    for (number, line) in file.code() {
        for (at, import) in line.match_indices(&layer) {
            let name = word_at(&line[at + import.len()..]);
            let is_type = name.starts_with(char::is_uppercase) || name.is_empty();
            match layer_in(table, name) {
                _ if name == module || is_type => (),
                Some(other) if other < own => (),
                Some(_) => errors.push(format!("{path}:{number}: imports upward: {name}")),
                None => errors.push(format!("{path}:{number}: {name} is on no floor")),
            }
        }
    }
    errors
}

fn client_layers(file: &Source) -> Vec<String> {
    points_down(file, CLIENT_LAYERS, file.path_in_src().map_or("", first_module))
}

fn points_down(file: &Source, table: &[&[&str]], module: &str) -> Vec<String> {
    let path = &file.path;
    if file.is_entry() {
        return Vec::new();
    }
    let Some(own) = layer_in(table, module) else {
        return vec![format!("{path}: module `{module}` is in no layer")];
    };
    let mut errors = Vec::new();
    for (number, line) in file.code() {
        if line.contains("super::super::") {
            errors.push(format!("{path}:{number}: write `crate::`"));
        }
        for (at, import) in line.match_indices("crate::") {
            let rest = &line[at + import.len()..];
            let name = word_at(rest);
            if rest.starts_with('{') {
                errors.push(format!("{path}:{number}: one `use crate::module` a line"));
                continue;
            }
            match layer_in(table, name) {
                _ if name == module => (),
                Some(other) if other < own => (),
                Some(_) => errors.push(format!("{path}:{number}: imports upward: {name}")),
                None => errors.push(format!("{path}:{number}: unknown module {name}")),
            }
        }
    }
    errors
}

fn wire_at_the_edge(file: &Source) -> Vec<String> {
    if file.module == "proto" || file.is_entry() || WIRE.contains(&file.module.as_str()) {
        return Vec::new();
    }
    file.code()
        .filter(|(_, line)| line.contains("crate::proto"))
        .map(|(number, _)| format!("{}:{number}: wire types stay at the edge", file.path))
        .collect()
}

/// The methods of a draft keep its parts consistent. The rules of a topic are functions, so that
/// they use only those methods.
fn draft_has_one_home(file: &Source) -> Vec<String> {
    if file.path.starts_with("src/domain/draft/") {
        return Vec::new();
    }
    let methods = file.code().filter(|(_, line)| {
        line.strip_prefix("impl").is_some_and(|rest| words(rest).any(|word| word == "Draft"))
    });
    let path = &file.path;
    methods.map(|(number, _)| format!("{path}:{number}: a method of `Draft`")).collect()
}

/// A default body in the trait of stores would let a backend, or a store that wraps another, forget
/// an answer.
fn no_store_inherits(file: &Source) -> Vec<String> {
    let is_head = |line: &String| line.starts_with("pub trait Store:");
    let Some(head) = file.lines.iter().position(is_head) else {
        return Vec::new();
    };
    let length = file.lines[head..].iter().position(|line| line == "}").unwrap_or(0);
    let in_trait = head + 1..=head + length;
    let bodies = file.functions().into_iter().filter(|(line, _)| in_trait.contains(line));
    let path = &file.path;
    bodies.map(|(line, _)| format!("{path}:{line}: has a default body")).collect()
}

/// The domain is synchronous and names no IO.
fn domain_is_pure(file: &Source) -> Vec<String> {
    if file.module != "domain" {
        return Vec::new();
    }
    let path = &file.path;
    let mut errors = Vec::new();
    let mut std_import = false;
    for (number, line) in file.code() {
        if line.contains("async ") || line.contains(".await") {
            errors.push(format!("{path}:{number}: the domain is synchronous"));
        }
        let item = line.trim_start().trim_start_matches("pub ");
        if let Some(used) = item.strip_prefix("use ") {
            let name = word_at(used);
            std_import = name == "std";
            let is_type = name.starts_with(char::is_uppercase);
            let is_map = name == "hashbrown" && DOMAIN_LOOKUPS.contains(&path.as_str());
            if !is_type && !is_map && !DOMAIN_CRATES.contains(&name) {
                errors.push(format!("{path}:{number}: not for the domain: {name}"));
            }
        }
        let banned = DOMAIN_STD_BANNED.iter().find(|banned| {
            line.contains(&format!("std::{banned}"))
                || std_import && words(line).any(|word| word == **banned)
        });
        let allows = |word: &str| word == "HashMap" && DOMAIN_LOOKUPS.contains(&path.as_str());
        if let Some(banned) = banned.filter(|word| !allows(word)) {
            errors.push(format!("{path}:{number}: not for the domain: std::{banned}"));
        }
        std_import &= !line.contains(';');
    }
    errors
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Errors are values; below `app` they are typed ones.
fn no_panics(file: &Source) -> Vec<String> {
    let mut errors = Vec::new();
    for (number, line) in file.code() {
        if line.contains(".unwrap()") {
            errors.push(format!("{}:{number}: unwrap outside tests", file.path));
        }
        let typed = layer(&file.module).is_some_and(|own| Some(own) < layer("app"));
        if typed && !file.is_entry() && words(line).any(|word| word == "anyhow") {
            errors.push(format!("{}:{number}: anyhow below app", file.path));
        }
    }
    errors
}

fn opens_with_purpose(file: &Source) -> Vec<String> {
    match file.text.starts_with("//! ") {
        true => Vec::new(),
        false => vec![format!("{}:1: starts without a `//!` sentence", file.path)],
    }
}

fn names(file: &Source) -> Vec<String> {
    file.path
        .trim_end_matches(".rs")
        .split('/')
        .filter(|part| EMPTY_NAMES.contains(part))
        .map(|part| format!("{}: `{part}` says nothing", file.path))
        .collect()
}

/// Imports of one module are one `use`, so that what a file needs is seen at a glance.
fn imports_are_grouped(file: &Source) -> Vec<String> {
    let module_of = |line: &str| {
        let path = line.trim().strip_prefix("use ")?.strip_suffix(';')?;
        let (module, name) = path.rsplit_once("::")?;
        let is_item = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let is_module = module.contains("::") || !["crate", "std", "super"].contains(&module);
        (is_item && is_module).then(|| module.to_string())
    };
    let mut errors = Vec::new();
    for (at, pair) in file.lines.windows(2).enumerate() {
        let (before, after) = (module_of(&pair[0]), module_of(&pair[1]));
        if let Some(module) = after.filter(|after| before.as_ref() == Some(after)) {
            errors.push(format!("{}:{}: group the imports of {module}", file.path, at + 2));
        }
    }
    errors
}

fn leftovers(file: &Source) -> Vec<String> {
    let mut errors = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        for leftover in LEFTOVERS.iter().filter(|leftover| line.contains(**leftover)) {
            errors.push(format!("{}:{}: leftover {leftover}", file.path, i + 1));
        }
    }
    errors
}

fn columns(file: &Source) -> Vec<String> {
    (1..)
        .zip(file.text.lines())
        .filter(|(_, line)| COLUMNS_MAX < line.chars().count())
        .map(|(number, _)| format!("{}:{number}: wider than {COLUMNS_MAX} columns", file.path))
        .collect()
}

fn file_length(file: &Source) -> Vec<String> {
    match file.lines.len() {
        0..=FILE_LINES_MAX => Vec::new(),
        lines => vec![format!("{}: {lines} lines", file.path)],
    }
}

fn function_length(file: &Source) -> Vec<String> {
    file.functions()
        .into_iter()
        .filter(|(_, length)| FUNCTION_LINES_MAX < *length)
        .map(|(line, length)| format!("{}:{line}: function of {length} lines", file.path))
        .collect()
}

/// The file of a module with parts stands in their folder, as `mod.rs`.
fn module_files(files: &[Source]) -> Vec<String> {
    let stands_beside = |file: &&Source| {
        let stem = file.path.trim_end_matches(".rs");
        file.path_in_src().is_some() && files.iter().any(|other| under(&other.path, stem))
    };
    let beside = files.iter().filter(stands_beside).map(|file| {
        let stem = file.path.trim_end_matches(".rs");
        format!("{}: stands beside its folder; move it to {stem}/mod.rs", file.path)
    });
    beside.collect()
}

/// The table in `src/lib.rs` is `LAYERS`, so the picture that a reader sees is the rule.
fn layer_table(lib: &str) -> Vec<String> {
    let expected = LAYERS.iter().enumerate().map(|(number, names)| {
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("//! | {number} | {} |", quoted.join(", "))
    });
    let shown: Vec<String> = lib.lines().filter_map(layer_row).collect();
    let expected: Vec<String> = expected.collect();
    let lacks = expected.iter().filter(|row| !shown.contains(row));
    let invents = shown.iter().filter(|row| !expected.contains(row));
    lacks
        .map(|row| format!("src/lib.rs: the layer table lacks: {row}"))
        .chain(invents.map(|row| format!("src/lib.rs: the layer table invents: {row}")))
        .collect()
}

/// A row of the table without what its last column says.
fn layer_row(line: &str) -> Option<String> {
    let mut cells = line.strip_prefix("//! |")?.split('|').map(str::trim);
    let (number, modules) = (cells.next()?, cells.next()?);
    number.parse::<usize>().ok()?;
    Some(format!("//! | {number} | {modules} |"))
}

/// Files that another file declares as tests, without `.rs`, as in `#[cfg(test)] mod tests;`.
fn test_modules(file: &Source) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
    let folder = match file.is_entry() {
        true => stem.rsplit_once('/').map_or("", |(folder, _)| folder),
        false => stem,
    };
    let lines: Vec<&str> = file.text.lines().collect();
    lines
        .windows(2)
        .filter(|pair| TESTS.contains(&pair[0].trim()))
        .filter_map(|pair| pair[1].trim().strip_suffix(';')?.split("mod ").nth(1))
        .map(|name| format!("{folder}/{name}"))
        .collect()
}

/// The code of every package, without its tests.
fn code_of(files: &[Source]) -> Vec<&Source> {
    let declared: BTreeSet<String> = files.iter().flat_map(test_modules).collect();
    let is_test = |file: &Source| {
        declared.iter().any(|stem| file.path == format!("{stem}.rs") || under(&file.path, stem))
    };
    files.iter().filter(|file| file.path_in_src().is_some() && !is_test(file)).collect()
}

fn under(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Every Rust file of the repository.
fn repository() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pending = vec![root.join("build.rs")];
    pending.extend(["src", "crates", "tests"].map(|folder| root.join(folder)));
    let mut found = Vec::new();
    while let Some(path) = pending.pop() {
        if path == root.join(GENERATED) {
            continue;
        }
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("folder is readable");
            pending.extend(entries.map(|entry| entry.expect("entry is readable").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") && path.exists() {
            let name = path.strip_prefix(root).expect("is under the root");
            let text = fs::read_to_string(&path).expect("source is readable");
            found.push(Source::new(&name.to_string_lossy().replace('\\', "/"), &text));
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no sources under {}", root.display());
    found
}

/// Rule, file, text, and what the rule says of it; an empty answer means that the text is allowed.
#[rustfmt::skip]
const FAULTS: &[(Rule, &str, &str, &str)] = &[
    (layers, "src/domain.rs", "use crate::store::Store;", ":1: imports upward: store"),
    (layers, "src/watch/a.rs", "\nuse crate::aggregator::A;", ":2: imports upward: aggregator"),
    (layers, "src/app.rs", "let x = crate::cli::run();", ":1: imports upward: cli"),
    (layers, "src/watch/b.rs", "use crate::watch::Hub;\nuse crate::store::B;", ""),
    (layers, "src/store/a.rs", "use crate::domain::A;\nuse crate::store::B;", ""),
    (layers, "src/store/a.rs", "// crate::service", ""),
    (layers, "src/store/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::app::App;\n}", ""),
    (layers, "src/store/a.rs", "use crate::nowhere::A;", ":1: unknown module nowhere"),
    (layers, "src/store/a.rs", "use crate::{", ":1: one `use crate::module` a line"),
    (layers, "src/store/a.rs", "use super::super::app;", ":1: write `crate::`"),
    (layers, "src/extra.rs", "", ": module `extra` is in no layer"),
    (wire_at_the_edge, "src/store.rs", "use crate::proto::v1;", ":1: wire types stay at the edge"),
    (floors, "src/domain/model/a.rs", "use crate::domain::draft::D;", ":1: imports upward: draft"),
    (floors, "src/domain/rules/a.rs", "use crate::domain::unit::Unit;", ":1: unit is on no floor"),
    (floors, "src/domain/rules/a.rs", "use crate::domain::model::unit::Unit;", ""),
    (floors, "src/service/caller/a.rs", "use crate::service::code::ApiError;", ""),
    (wire_at_the_edge, "src/service/a.rs", "use crate::proto::v1;", ""),
    (client_layers, "crates/client/src/link.rs", "use crate::error::A;\nuse crate::link::B;", ""),
    (client_layers, "crates/client/src/link.rs", "crate::watch::A", ":1: imports upward: watch"),
    (client_layers, "crates/client/src/a.rs", "", ": module `a` is in no layer"),
    (draft_has_one_home, "src/domain/a.rs", "impl Draft<'_> {}", ":1: a method of `Draft`"),
    (draft_has_one_home, "src/domain/draft/a.rs", "impl<'a> Draft<'a> {}", ""),
    (no_store_inherits, "a.rs", "pub trait Store: A {\nfn b() {}\n}", ":2: has a default body"),
    (no_store_inherits, "a.rs", "fn a() {}\npub trait Store: A {\n    fn b();\n}\nfn c() {}", ""),
    (domain_is_pure, "src/domain.rs", "async fn a() {}", ":1: the domain is synchronous"),
    (domain_is_pure, "src/domain.rs", "use tokio::time;", ":1: not for the domain: tokio"),
    (domain_is_pure, "src/domain.rs", "use std::HashMap;", ":1: not for the domain: std::HashMap"),
    (domain_is_pure, "src/domain.rs", "use std::{\n    fs,\n};", ":2: not for the domain: std::fs"),
    (domain_is_pure, "src/domain.rs", "std::env::args();", ":1: not for the domain: std::env"),
    (domain_is_pure, "src/domain.rs", "    use Level::*;", ""),
    (domain_is_pure, "src/domain.rs", "use std::sync::Arc;\nuse serde::Serialize;", ""),
    (domain_is_pure, "src/store/a.rs", "async fn a() {}", ""),
    (no_panics, "src/cli/a.rs", "a.unwrap();", ":1: unwrap outside tests"),
    (no_panics, "crates/a/src/b.rs", "a.unwrap();", ":1: unwrap outside tests"),
    (no_panics, "src/cli/a.rs", "use anyhow::Result;", ""),
    (no_panics, "crates/a/src/b.rs", "use anyhow::Result;", ""),
    (no_panics, "src/store/a.rs", "use anyhow::Result;", ":1: anyhow below app"),
    (opens_with_purpose, "src/store/a.rs", "use std::fs;", ":1: starts without a `//!` sentence"),
    (names, "src/store/utils.rs", "", ": `utils` says nothing"),
    (imports_are_grouped, "a.rs", "use a::b::C;\nuse a::b::D;", ":2: group the imports of a::b"),
    (imports_are_grouped, "tests/a.rs", "use a::b::{C, D};\nuse a::b::e::F;\nuse a::c::D;", ""),
    (leftovers, "src/store/a.rs", concat!("// TO", "DO: later"), concat!(":1: leftover TO", "DO")),
    (leftovers, "src/store/a.rs", concat!("dbg", "!(a);"), concat!(":1: leftover dbg", "!(")),
];

#[test]
fn each_rule_names_a_planted_fault() {
    for (rule, path, text, said) in FAULTS {
        let expected = match said.is_empty() {
            true => String::new(),
            false => format!("{path}{said}"),
        };
        let errors = rule(&Source::new(path, text)).join("\n");
        assert_eq!(errors, expected, "{path}: {text}");
    }
}

#[test]
fn each_length_is_measured() {
    let long = format!("fn a(\n) {{\n{}}}\n", "    b();\n".repeat(68));
    let file = Source::new("src/store/a.rs", &long);
    let said = "src/store/a.rs:1: function of 71 lines";
    assert_eq!(function_length(&file), [said]);
    let file = Source::new("src/store/a.rs", &"//\n".repeat(501));
    assert_eq!(file_length(&file), ["src/store/a.rs: 501 lines"]);
    let file = Source::new("src/store/a.rs", &"é".repeat(101));
    assert_eq!(columns(&file), ["src/store/a.rs:1: wider than 100 columns"]);
    let short = "trait A {\n    fn a();\n    fn b() {}\n    pub(crate) const fn c() {\n    }\n}\n";
    let functions = Source::new("src/store/a.rs", short).functions();
    assert_eq!(functions, [(3, 1), (4, 2)]);
}

#[test]
fn a_module_beside_its_folder_is_named() {
    let files = |paths: &[&str]| -> Vec<Source> {
        paths.iter().map(|path| Source::new(path, "")).collect()
    };
    let found = module_files(&files(&["src/a.rs", "src/a/b.rs", "src/ab.rs", "src/c/mod.rs"]));
    assert_eq!(found, ["src/a.rs: stands beside its folder; move it to src/a/mod.rs"]);
    assert!(module_files(&files(&["tests/a.rs", "tests/a/b.rs", "src/lib.rs"])).is_empty());
}

#[test]
fn the_layer_table_may_neither_lack_nor_invent() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let lib = lib.expect("src/lib.rs is readable");
    let moved =
        lib.replace("| 0 | `domain`, `proto`, `sync` |", "| 0 | `sync`, `proto`, `domain` |");
    assert_eq!(
        layer_table(&moved),
        [
            "src/lib.rs: the layer table lacks: //! | 0 | `domain`, `proto`, `sync` |",
            "src/lib.rs: the layer table invents: //! | 0 | `sync`, `proto`, `domain` |",
        ]
    );
}

#[test]
fn files_declared_as_tests_are_known() {
    let text = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\npub(crate) mod conformance;\n";
    let found = test_modules(&Source::new("src/store/mod.rs", text));
    assert_eq!(found, ["src/store/tests", "src/store/conformance"]);
    assert_eq!(test_modules(&Source::new("src/lib.rs", text))[0], "src/tests");
    let member = Source::new("crates/a/src/lib.rs", text);
    assert_eq!(test_modules(&member)[0], "crates/a/src/tests");
    for before in TESTS {
        let file = Source::new("src/store/mod.rs", &format!("{before}\nmod tests;\n"));
        assert_eq!(test_modules(&file), ["src/store/tests"]);
    }
}

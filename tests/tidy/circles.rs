//! Circles of files, and rings of folders: a file, or the files of a folder, import one that
//! imports it, directly or through others.
//!
//! `cargo test --test tidy circles -- --nocapture` prints the circles, and what it read. An import
//! is a `use`, or a path from `crate::`, `super::` or `self::`. A re-export leads to the file that
//! defines the item, so a module and its parts are not a circle by re-exports alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{Source, code_of, repository};

/// The most re-exports of re-exports that are followed.
const REEXPORTS_MAX: usize = 8;

/// The files of one crate by their modules, and the imports of each.
#[derive(Default)]
struct Crate {
    /// Path of the file of each module; the entry of a crate has none.
    files: BTreeMap<String, String>,
    /// What a public `use` names, by the name that it gives.
    reexports: BTreeMap<String, String>,
    /// The path as written, by the importing and the imported module.
    imports: BTreeMap<String, BTreeMap<String, String>>,
}

impl Crate {
    fn read(files: &[&Source]) -> Crate {
        let mut read = Crate::default();
        let texts: Vec<(String, Paths)> =
            files.iter().map(|file| (module_of(file), Paths::of(file))).collect();
        for (file, (module, paths)) in files.iter().zip(&texts) {
            if !file.is_entry() {
                read.files.insert(module.clone(), file.path.clone());
            }
            for (path, name) in &paths.public {
                let target = full(module, path).unwrap_or_else(|| join(module, path));
                read.reexports.insert(join(module, name), target);
            }
        }
        for (module, paths) in texts {
            for path in paths.private {
                let target = full(&module, &path).and_then(|target| read.home(target));
                if let Some(target) = target.filter(|target| *target != module) {
                    read.imports.entry(module.clone()).or_default().insert(target, path);
                }
            }
        }
        read
    }

    /// The module of the file that defines what a path names.
    fn home(&self, mut path: String) -> Option<String> {
        for _ in 0..REEXPORTS_MAX {
            let found = prefixes(&path).find_map(|name| Some((name, self.reexports.get(name)?)));
            let Some((name, target)) = found else {
                break;
            };
            path = format!("{target}{}", &path[name.len()..]);
        }
        prefixes(&path).find(|name| self.files.contains_key(*name)).map(str::to_string)
    }

    /// All modules that a module imports, directly or through others.
    fn reach<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut pending = vec![module];
        while let Some(next) = pending.pop() {
            let imports = self.imports.get(next).into_iter().flatten();
            pending
                .extend(imports.map(|(module, _)| module.as_str()).filter(|m| reached.insert(*m)));
        }
        reached
    }

    /// The groups of modules that import each other.
    fn circles(&self) -> BTreeSet<Vec<&str>> {
        let modules = self.imports.keys().map(|module| (module.as_str(), self.reach(module)));
        let reached: BTreeMap<&str, BTreeSet<&str>> = modules.collect();
        let mut circles = BTreeSet::new();
        for (module, others) in &reached {
            let is_in = |other: &&&str| reached.get(**other).is_some_and(|r| r.contains(module));
            let circle: Vec<&str> = others.iter().filter(is_in).copied().collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        circles
    }

    /// The imports within a circle, one a line.
    fn shown(&self, circle: &[&str]) -> String {
        let mut text = format!("{} files import each other:\n", circle.len());
        for module in circle {
            for (other, path) in self.imports.get(*module).into_iter().flatten() {
                if circle.contains(&other.as_str()) {
                    let (from, to) = (&self.files[*module], &self.files[other]);
                    writeln!(text, "  {from} -> {to}  {path}").expect("a String takes everything");
                }
            }
        }
        text
    }
}

impl Crate {
    /// The imports between neighbours: the folders and files of one folder. The name of each is the
    /// module that it is.
    fn neighbours(&self) -> Crate {
        let mut rooms = Crate::default();
        for (module, imports) in &self.imports {
            for other in imports.keys() {
                if let Some((from, to)) = apart(module, other) {
                    let path = format!("{module} -> {other}");
                    rooms.imports.entry(from).or_default().insert(to, path);
                }
            }
        }
        rooms
    }

    /// The rings of neighbours, each with its imports, one a line.
    fn rings(&self) -> Vec<String> {
        let rooms = self.neighbours();
        let shown = |ring: &Vec<&str>| {
            let mut text = format!("{} import each other:\n", ring.join(", "));
            for (from, imports) in rooms.imports.iter().filter(|(from, _)| ring.contains(&&***from))
            {
                for (to, path) in imports.iter().filter(|(to, _)| ring.contains(&&***to)) {
                    writeln!(text, "  {from} -> {to}: {path}").expect("a String takes everything");
                }
            }
            text
        };
        rooms.circles().iter().map(shown).collect()
    }
}

/// The folders or files at which the ways to two modules part; nothing if one is within the other.
fn apart(one: &str, other: &str) -> Option<(String, String)> {
    let (ones, others): (Vec<_>, Vec<_>) = (one.split("::").collect(), other.split("::").collect());
    let same = ones.iter().zip(&others).take_while(|(one, other)| one == other).count();
    let upto = |parts: &[&str]| parts.get(..=same).map(|parts| parts.join("::"));
    upto(&ones).zip(upto(&others))
}

/// The paths that one file names.
#[derive(Default)]
struct Paths {
    /// Those of a public `use`, each with the name that it gives.
    public: Vec<(String, String)>,
    private: Vec<String>,
}

impl Paths {
    fn of(file: &Source) -> Paths {
        let mut paths = Paths::default();
        let mut open: Option<(bool, String)> = None;
        for (_, line) in file.code() {
            let line = line.trim();
            let public = line.starts_with("pub").then(|| line.split_once(" use ")).flatten();
            match (&mut open, line.strip_prefix("use "), public) {
                (Some((_, tree)), ..) => tree.push_str(line),
                (None, Some(tree), _) => open = Some((false, tree.to_string())),
                (None, None, Some((_, tree))) => open = Some((true, tree.to_string())),
                (None, None, None) => paths.private.extend(inline(line)),
            }
            if let Some((is_public, tree)) = open.take_if(|(_, tree)| tree.ends_with(';')) {
                paths.take(is_public, tree.trim_end_matches(';'));
            }
        }
        paths
    }

    fn take(&mut self, is_public: bool, tree: &str) {
        for path in leaves(tree) {
            let (path, name) = match path.split_once(" as ") {
                Some((path, name)) => (path, Some(name.to_string())),
                None => (path.as_str(), None),
            };
            let path = path.trim_end_matches("::self");
            match is_public {
                true => {
                    let last = path.rsplit("::").next().unwrap_or(path).to_string();
                    self.public.push((path.to_string(), name.unwrap_or(last)));
                }
                false => self.private.push(path.to_string()),
            }
        }
    }
}

/// The paths of a tree: `a::b` and `a::c` for `a::{b, c}`.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((stem, rest)) = tree.split_once('{') else {
        return vec![tree.to_string()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let mut depth = 0;
    let parts = inner.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.flat_map(leaves).map(|path| format!("{stem}{path}")).collect()
}

/// The paths of a line that are written out.
fn inline(line: &str) -> impl Iterator<Item = String> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let is_path =
        |word: &&str| ["crate::", "super::", "self::"].iter().any(|root| word.starts_with(root));
    words.filter(is_path).map(|word| word.trim_end_matches(':').to_string())
}

/// `a::b` for `src/a/b.rs` and for `src/a/b/mod.rs`; empty for the entry of a crate.
fn module_of(file: &Source) -> String {
    let path = file.path_in_src().unwrap_or_default().trim_end_matches(".rs");
    match file.is_entry() {
        true => String::new(),
        false => path.trim_end_matches("/mod").replace('/', "::"),
    }
}

/// What a path means in a module; nothing for a path of another crate.
fn full(module: &str, path: &str) -> Option<String> {
    let (root, mut rest) = path.split_once("::").unwrap_or((path, ""));
    let mut base = match root {
        "crate" => "",
        "self" => module,
        "super" => parent(module),
        _ => return None,
    };
    while let Some(inner) = rest.strip_prefix("super::") {
        (base, rest) = (parent(base), inner);
    }
    Some(join(base, rest))
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn join(base: &str, rest: &str) -> String {
    match base.is_empty() || rest.is_empty() {
        true => format!("{base}{rest}"),
        false => format!("{base}::{rest}"),
    }
}

/// `a::b::c`, `a::b` and `a`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once("::").map(|(shorter, _)| shorter))
}

/// The crates of the repository: the files by the folder before `src/`.
fn crates<'a>(code: &[&'a Source]) -> BTreeMap<String, Vec<&'a Source>> {
    let mut crates: BTreeMap<String, Vec<&Source>> = BTreeMap::new();
    for file in code.iter().copied() {
        let path = file.path_in_src().unwrap_or_default();
        let folder = file.path.strip_suffix(path).unwrap_or_default();
        crates.entry(folder.to_string()).or_default().push(file);
    }
    crates
}

#[test]
fn files_import_each_other_in_no_circle() {
    let files = repository();
    let code = code_of(&files);
    let (mut imports, mut circles) = (0, Vec::new());
    for (name, files) in crates(&code) {
        let read = Crate::read(&files);
        imports += read.imports.values().map(BTreeMap::len).sum::<usize>();
        circles.extend(read.circles().iter().map(|circle| read.shown(circle)));
        if name == "src/" {
            circles.extend(read.rings());
        }
    }
    println!("circles: {}", if circles.is_empty() { "none" } else { "found" });
    println!("{} files with {imports} imports of each other read", code.len());
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// Path and text of a file.
type File = (&'static str, &'static str);

/// The circles of a crate with these files.
fn circles_of(files: &[File]) -> Vec<String> {
    let files: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    let read = Crate::read(&files.iter().collect::<Vec<_>>());
    read.circles().into_iter().map(|circle| circle.join(" ")).collect()
}

#[test]
fn a_planted_ring_of_folders_is_named() {
    let ring = |files: &[File]| {
        let files: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let read = Crate::read(&files.iter().collect::<Vec<_>>());
        assert_eq!(read.circles().len(), 0, "no circle of files");
        read.rings()
    };
    let one_way = ("src/a/x/one.rs", "use crate::a::y::Two;");
    let found = ring(&[
        one_way,
        ("src/a/x/other.rs", ""),
        ("src/a/y/mod.rs", ""),
        ("src/a/y/back.rs", "use crate::a::x::other::Other;"),
    ]);
    let text = "a::x, a::y import each other:\n  a::x -> a::y: a::x::one -> a::y\n  \
                a::y -> a::x: a::y::back -> a::x::other\n";
    assert_eq!(found, [text]);
    assert!(ring(&[one_way, ("src/a/y/mod.rs", "use crate::b::B;"), ("src/b.rs", "")]).is_empty());
}

#[test]
fn a_planted_circle_is_named() {
    let cases: &[(&[File], &[&str])] = &[
        (&[("src/a.rs", "use crate::b::B;"), ("src/b.rs", "crate::a::A::new()")], &["a b"]),
        (&[("src/a/b.rs", "use super::c::C;"), ("src/a/c.rs", "super::b::B")], &["a::b a::c"]),
        (
            &[
                ("src/a.rs", "use crate::{\n    b::{self, B},\n};"),
                ("src/b.rs", "use crate::c;"),
                ("src/c.rs", "use crate::a::A as B;"),
            ],
            &["a b c"],
        ),
        // A re-export leads to the file that defines the item.
        (
            &[
                ("src/lib.rs", "pub use a::C;"),
                ("src/a/mod.rs", "pub use b::B as C;\nmod b;"),
                ("src/a/b.rs", "use crate::d::D;"),
                ("src/d.rs", "use crate::C;"),
            ],
            &["a::b d"],
        ),
        (
            &[
                ("src/a/mod.rs", "pub use b::B;"),
                ("src/a/b.rs", "use super::c::C;"),
                ("src/a/c.rs", "use crate::e::E;"),
            ],
            &[],
        ),
        (&[("src/a.rs", "// crate::b"), ("src/b.rs", "use crate::a::A;")], &[]),
        (
            &[
                ("src/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}"),
                ("src/b.rs", "use crate::a::A;"),
            ],
            &[],
        ),
    ];
    for (files, expected) in cases {
        assert_eq!(circles_of(files), *expected, "{files:?}");
    }
}

//! Runs of equal lines: one fact in two places.
//!
//! `cargo test --test tidy duplicates -- --nocapture` prints the runs, and what it read. Comments,
//! blank lines, indentation and imports do not count.

use std::collections::BTreeMap;

use super::{Source, code_of, repository};

/// The longest run that may stand twice: heads of functions and lists of fields are alike.
const RUN_MAX: usize = 11;

/// The shortest run that is printed.
const RUN_SHOWN: usize = 8;

/// The lines of one file that count, with their numbers.
struct Lines<'a> {
    path: &'a str,
    lines: Vec<(usize, &'a str)>,
}

impl<'a> Lines<'a> {
    fn of(file: &'a Source) -> Lines<'a> {
        let mut lines = Vec::new();
        let mut is_import = false;
        for (number, line) in file.code() {
            let line = line.trim();
            is_import |= line.starts_with("use ") || line.starts_with("pub use ");
            if !line.is_empty() && !is_import {
                lines.push((number, line));
            }
            is_import &= !line.ends_with(';');
        }
        Lines { path: &file.path, lines }
    }

    fn text(&self, at: usize) -> Option<&'a str> {
        self.lines.get(at).map(|(_, text)| *text)
    }
}

/// The runs of at least [`RUN_SHOWN`] lines, longest first: length, and where it stands twice.
fn runs(files: &[Lines<'_>]) -> Vec<(usize, String)> {
    let mut places: BTreeMap<Vec<&str>, Vec<(usize, usize)>> = BTreeMap::new();
    for (file, Lines { lines, .. }) in files.iter().enumerate() {
        for (at, window) in lines.windows(RUN_SHOWN).enumerate() {
            let window = window.iter().map(|(_, text)| *text).collect();
            places.entry(window).or_default().push((file, at));
        }
    }
    let mut found: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
    for twice in places.values().filter(|places| 1 < places.len()) {
        found.insert(twice[0], twice[1]);
    }
    let mut runs = Vec::new();
    let mut end = (0, 0);
    for (first, second) in found {
        if first < end {
            continue; // within the run before
        }
        let of = |(file, at): (usize, usize), line| files[file].text(at + line);
        let same =
            |line: &usize| of(first, *line).is_some() && of(first, *line) == of(second, *line);
        let length = (0..).take_while(same).count();
        end = (first.0, first.1 + length);
        let at = |(file, at): (usize, usize)| {
            let Lines { path, lines } = &files[file];
            format!("{path}:{}", lines[at].0)
        };
        runs.push((length, format!("{} and {}", at(first), at(second))));
    }
    runs.sort_by(|a, b| b.cmp(a));
    runs
}

#[test]
fn no_long_run_of_lines_stands_twice() {
    let files = repository();
    let code: Vec<Lines<'_>> =
        code_of(&files).into_iter().filter(|f| f.path.starts_with("src/")).map(Lines::of).collect();
    let runs = runs(&code);
    for (length, places) in &runs {
        println!("{length} equal lines: {places}");
    }
    let lines: usize = code.iter().map(|file| file.lines.len()).sum();
    println!("{} runs of {RUN_SHOWN} lines or more in {lines} lines of code", runs.len());
    let long: Vec<&(usize, String)> = runs.iter().filter(|(length, _)| RUN_MAX < *length).collect();
    assert!(long.is_empty(), "give these lines one place: {long:?}");
}

#[test]
fn a_planted_run_is_named() {
    let body = |indent: &str| (0..12).map(|n| format!("{indent}f({n});\n")).collect::<String>();
    let once = format!("use a::b;\n{}", body(""));
    let twice = format!("// why\nfn g() {{\n{}}}\n", body("    \n    "));
    let files = [Source::new("src/a.rs", &once), Source::new("src/b.rs", &twice)];
    let files: Vec<Lines<'_>> = files.iter().map(Lines::of).collect();
    assert_eq!(runs(&files), [(12, "src/a.rs:2 and src/b.rs:4".to_string())]);
    let imports = "use a::{\n    b,\n    c,\n    d,\n    e,\n    f,\n    g,\n    h,\n    i,\n};\n";
    let files = [Source::new("src/a.rs", imports), Source::new("src/b.rs", imports)];
    assert!(runs(&files.iter().map(Lines::of).collect::<Vec<_>>()).is_empty());
}

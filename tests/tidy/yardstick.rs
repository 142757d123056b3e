//! The yardstick: how long files and functions are as a whole, and how many lines of tests there
//! are for the lines that ship.
//!
//! `cargo test --test tidy yardstick -- --nocapture` prints each figure with its limit. The lengths
//! are those of the code of every package, with comments and blank lines, without tests. The lines
//! that ship are those of the server and of the client in Rust. Tests are the Rust files under
//! `tests/`, the modules of tests in every package, and the packages that only test: the
//! simulation, the models and the fuzz targets. Both count lines that are neither blank nor a
//! comment.

use std::collections::BTreeSet;

use super::{Source, code_of, repository, under};

/// The packages that only test.
const TEST_PACKAGES: &[&str] = &["crates/fuzz", "crates/model", "crates/sim"];
/// What ships.
const SHIPPED: &[&str] = &["src", "crates/client/src"];

/// What a figure must not pass.
#[derive(Clone, Copy)]
enum Limit {
    Most(usize),
    Least(usize),
}

struct Figure {
    name: &'static str,
    value: usize,
    limit: Limit,
}

impl Figure {
    fn line(&self) -> String {
        let limit = match self.limit {
            Limit::Most(most) => format!("at most {most}"),
            Limit::Least(least) => format!("at least {least}"),
        };
        format!("{}: {} ({limit})", self.name, self.value)
    }

    fn is_within(&self) -> bool {
        match self.limit {
            Limit::Most(most) => self.value <= most,
            Limit::Least(least) => least <= self.value,
        }
    }
}

#[test]
fn the_code_keeps_to_the_yardstick() {
    let figures = figures(&repository());
    for figure in &figures {
        println!("{}", figure.line());
    }
    let over: Vec<String> =
        figures.iter().filter(|figure| !figure.is_within()).map(Figure::line).collect();
    assert!(over.is_empty(), "beyond its limit: {}", over.join(", "));
}

fn figures(files: &[Source]) -> [Figure; 4] {
    let code = code_of(files);
    let lengths: Vec<usize> = code.iter().map(|file| file.lines.len()).collect();
    let functions = code.iter().flat_map(|file| file.functions()).map(|(_, length)| length);
    let (tests, shipped) = tests_and_shipped(files, &code);
    let figure = |name, value, limit| Figure { name, value, limit };
    [
        figure("lines of the median file", percentile(&lengths, 50), Limit::Most(150)),
        figure("lines of one file in ten", percentile(&lengths, 90), Limit::Most(350)),
        figure(
            "lines of one function in ten",
            percentile(&functions.collect::<Vec<_>>(), 90),
            Limit::Most(40),
        ),
        figure(
            "lines of tests for 100 that ship",
            (tests * 100).checked_div(shipped).unwrap_or(0),
            Limit::Least(80),
        ),
    ]
}

/// Returns the lines of tests, and the lines that ship.
fn tests_and_shipped(files: &[Source], code: &[&Source]) -> (usize, usize) {
    let paths: BTreeSet<&str> = code.iter().map(|file| file.path.as_str()).collect();
    let (mut tests, mut shipped) = (0, 0);
    for file in files {
        let is_under = |folder: &&str| under(&file.path, folder);
        let all = lines_of_code(file.text.lines());
        if !paths.contains(file.path.as_str()) || TEST_PACKAGES.iter().any(is_under) {
            tests += if file.path == "build.rs" { 0 } else { all };
            continue;
        }
        let before_tests = lines_of_code(file.lines.iter().map(String::as_str));
        tests += all - before_tests;
        if SHIPPED.iter().any(is_under) {
            shipped += before_tests;
        }
    }
    (tests, shipped)
}

fn lines_of_code<'l>(lines: impl Iterator<Item = &'l str>) -> usize {
    let is_code = |line: &str| !line.is_empty() && !line.starts_with("//");
    lines.map(str::trim).filter(|line| is_code(line)).count()
}

fn percentile(lengths: &[usize], percent: usize) -> usize {
    let mut lengths = lengths.to_vec();
    lengths.sort_unstable();
    let rank = (lengths.len() * percent).div_ceil(100);
    lengths.get(rank.max(1) - 1).copied().unwrap_or(0)
}

#[test]
fn each_figure_is_measured() {
    let values = |files: &[Source]| figures(files).map(|figure| figure.value);
    let long = format!("fn a(\n) {{\n{}}}\n", "    b();\n".repeat(68));
    let files = [
        Source::new("src/store/a.rs", &long),
        Source::new("src/store/b.rs", &format!("{}c();\n\n", "//\n".repeat(498))),
        Source::new(
            "src/store/d.rs",
            "c();\n#[cfg(test)]\nmod tests {\n    // Why.\n    d();\n}\n",
        ),
    ];
    assert_eq!(values(&files), [71, 500, 71, 400 / 73]);
    let tests = [
        Source::new("src/a.rs", "c();\n"),
        Source::new("tests/a.rs", "d();\nd();\n"),
        Source::new("crates/sim/src/a.rs", "d();\n"),
        Source::new("crates/bench/src/a.rs", "e();\n"),
    ];
    assert_eq!(values(&tests)[3], 300);
}

#[test]
fn a_figure_beyond_its_limit_is_found() {
    let figure = |value, limit| Figure { name: "lines", value, limit };
    assert!(figure(3, Limit::Most(3)).is_within() && !figure(4, Limit::Most(3)).is_within());
    assert!(figure(3, Limit::Least(3)).is_within() && !figure(2, Limit::Least(3)).is_within());
    assert_eq!(figure(4, Limit::Most(3)).line(), "lines: 4 (at most 3)");
}

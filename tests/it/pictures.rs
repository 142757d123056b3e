//! The picture of a terminal in the README is what the commands print.
//!
//! `UPDATE=1 cargo test --test it pictures::` draws it again. Times and ports are replaced, so that
//! equal output makes equal bytes.

use std::fmt::Write as _;
use std::time::Instant;

use crate::cli::{command, ok};
use crate::server::{DEADLINE, Server};

const SHOWN: [&[&str]; 2] = [&["status"], &["why", "web"]];

/// The time of the server in the picture, and how long ago the reports were.
const TIME: &str = "13:14:21Z";
const AGE: &str = "4s";

/// In pixels: the size of a character, the height of a line, the edge.
const FONT: f32 = 14.0;
const CHARACTER: f32 = 8.45;
const LINE: f32 = 20.0;
const EDGE: f32 = 18.0;

const BYTES_MAX: usize = 8 * 1024;

/// The name of a file, and the colours of background, frame, text, and the classes of `CLASSES`.
struct Theme {
    name: &'static str,
    background: &'static str,
    frame: &'static str,
    text: &'static str,
    classes: [&'static str; 5],
}

/// A code of a terminal, and the class of its text. `p` is the prompt.
const CLASSES: [(&str, &str); 5] = [("31", "r"), ("32", "g"), ("33", "y"), ("36", "c"), ("2", "p")];

const THEMES: [Theme; 2] = [
    Theme {
        name: "light",
        background: "#ffffff",
        frame: "#d0d7de",
        text: "#1f2328",
        classes: ["#cf222e", "#1a7f37", "#9a6700", "#1b7c83", "#59636e"],
    },
    Theme {
        name: "dark",
        background: "#0d1117",
        frame: "#30363d",
        text: "#e6edf3",
        classes: ["#ff7b72", "#3fb950", "#d29922", "#39c5cf", "#9198a1"],
    },
];

#[test]
fn the_terminal_of_the_readme_shows_what_the_commands_print() {
    let shown = scenario();
    for expected in ["rule: highest level under", "juju integrate web", "\x1b[31mblocked"] {
        assert!(shown.contains(expected), "{expected:?} is not in:\n{shown}");
    }
    for theme in &THEMES {
        let drawn = draw(&shown, theme);
        assert!(drawn.len() <= BYTES_MAX, "{} has {} bytes", theme.name, drawn.len());
        let root = env!("CARGO_MANIFEST_DIR");
        let file = format!("{root}/docs/images/terminal-{}.svg", theme.name);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, &drawn).unwrap();
        }
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(there, drawn, "{file} is stale: UPDATE=1 cargo test --test it pictures::");
    }
}

/// Returns what a terminal shows. A slow run is repeated: ages of two digits make other columns.
fn scenario() -> String {
    let begin = Instant::now();
    loop {
        let server = Server::ephemeral();
        ok(&server, &["report", "web/1", "--level", "active"]);
        let report = ["report", "web/0", "--level", "blocked", "-m", "add a database relation"];
        let action = ["--action", "juju integrate web postgresql"];
        ok(&server, &[&report[..], &action].concat());
        let address = server.grpc.to_string();
        let mut shown = Vec::new();
        for line in SHOWN {
            let output = command(&server, line).arg("--color=always").output().unwrap();
            assert!(output.status.success(), "{line:?}");
            let out = String::from_utf8(output.stdout).unwrap();
            shown.push(format!("\x1b[2m$\x1b[0m bellwether {}\n{out}", line.join(" ")));
        }
        let shown = shown.join("\n").replace(&address, "127.0.0.1:50051");
        if let Some(steady) = steady(&shown) {
            return steady;
        }
        assert!(begin.elapsed() < DEADLINE, "too slow for a picture: {shown}");
    }
}

/// Replaces times and ages; `None` if an age has more than one digit.
fn steady(shown: &str) -> Option<String> {
    let mut steady = String::new();
    let mut rest = shown;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let is_word =
            rest[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '/');
        steady.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits =
            rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let after = &rest[digits..];
        if is_time(rest) {
            steady.push_str(TIME);
            rest = &rest[TIME.len()..];
        } else if !is_word && is_age(after) {
            if digits > 1 {
                return None;
            }
            steady.push_str(AGE);
            rest = &after[1..];
        } else {
            steady.push_str(&rest[..digits]);
            rest = after;
        }
    }
    Some(steady + rest)
}

fn is_time(text: &str) -> bool {
    let Some(word) = text.get(..TIME.len()) else { return false };
    word.bytes().zip(TIME.bytes()).all(|(found, wanted)| match wanted {
        b'0'..=b'9' => found.is_ascii_digit(),
        _ => found == wanted,
    })
}

fn is_age(after: &str) -> bool {
    after
        .strip_prefix('s')
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
}

fn draw(shown: &str, theme: &Theme) -> String {
    let lines: Vec<Vec<(&str, String)>> = shown.trim_end().lines().map(spans).collect();
    let columns = lines.iter().map(|line| width(line)).max().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a terminal is small")]
    let (wide, high) = (
        (CHARACTER * columns as f32 + 2.0 * EDGE).ceil(),
        (LINE * lines.len() as f32 + 2.0 * EDGE).ceil(),
    );
    let Theme { background, frame, text, classes, .. } = theme;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" \
         height=\"{high}\" role=\"img\">\n<title>bellwether status and bellwether why in a \
         terminal</title>\n<style>text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,\
         'DejaVu Sans Mono',monospace;fill:{text};white-space:pre}}"
    );
    for ((_, class), colour) in CLASSES.iter().zip(classes) {
        write!(svg, ".{class}{{fill:{colour}}}").unwrap();
    }
    write!(
        svg,
        "</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\" \
         fill=\"{background}\" stroke=\"{frame}\"/>\n",
        wide - 1.0,
        high - 1.0
    )
    .unwrap();
    let mut y = EDGE + FONT;
    for line in &lines {
        if !line.is_empty() {
            write!(svg, "<text x=\"{EDGE}\" y=\"{y}\" xml:space=\"preserve\">").unwrap();
            for (class, text) in line {
                match *class {
                    "" => svg.push_str(&escaped(text)),
                    class => {
                        write!(svg, "<tspan class=\"{class}\">{}</tspan>", escaped(text)).unwrap();
                    }
                }
            }
            svg.push_str("</text>\n");
        }
        y += LINE;
    }
    svg + "</svg>\n"
}

fn width(line: &[(&str, String)]) -> usize {
    line.iter().map(|(_, text)| text.chars().count()).sum()
}

/// Divides a line at the codes of the terminal into texts with their class.
fn spans(line: &str) -> Vec<(&'static str, String)> {
    let mut parts = line.split("\x1b[");
    let first = parts.next().unwrap_or_default();
    let mut found = vec![("", first.to_string())];
    for part in parts {
        let (code, text) = part.split_once('m').unwrap();
        let class = match code {
            "0" => "",
            code => {
                CLASSES.iter().find(|(known, _)| *known == code).expect("a code with a class").1
            }
        };
        found.push((class, text.to_string()));
    }
    found.retain(|(_, text)| !text.is_empty());
    found
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn times_and_ages_are_replaced_and_nothing_else() {
    let given = "at 01:02:03Z  0s (7s)  web/0 2/2 127.0.0.1:50051 3services";
    let expected = "at 13:14:21Z  4s (4s)  web/0 2/2 127.0.0.1:50051 3services";
    assert_eq!(steady(given).as_deref(), Some(expected));
    assert_eq!(steady("12s"), None);
}

//! The findings of a check of the store: the worst first, with the reason and what to do.

use unicode_width::UnicodeWidthStr;

use crate::cli::render::paint::Paint;
use crate::cli::render::{Screen, counted, one_line};
use crate::doctor::{Finding, Level};

/// Whether the locale can show symbols: by LC_ALL, LC_CTYPE or LANG.
pub fn has_symbols() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).is_some_and(|set| is_utf8(&set))
}

fn is_utf8(locale: &str) -> bool {
    locale.to_ascii_lowercase().replace('-', "").ends_with("utf8")
}

/// Formats the findings in the given order. Without `symbols` the marks of the levels are ASCII.
pub fn render(store: &str, findings: &[Finding], symbols: bool, screen: Screen) -> String {
    let width = findings.iter().map(|finding| finding.check.width()).max().unwrap_or(0);
    let servers = findings.iter().flat_map(|finding| &finding.servers);
    let has_several = servers.clone().any(|server| Some(server) != servers.clone().next());
    let mut text = format!("{}\n\n", one_line(store));
    for finding in findings {
        let (symbol, ascii, paint) = signs(finding.level);
        let mark = if symbols { symbol } else { ascii };
        let head = format!("{mark} {:width$}", finding.check);
        let indent = head.width() + 2;
        let mut found = finding.found.clone();
        if has_several && !finding.servers.is_empty() {
            found = format!("{found}  ({})", finding.servers.join(", "));
        }
        let found = wrap(&one_line(&found), indent, screen.width);
        text.push_str(&format!("{}  {found}\n", paint.apply(&head, screen.color)));
        for line in [&finding.why, &finding.advice].into_iter().filter(|line| !line.is_empty()) {
            let line = wrap(&one_line(line), indent, screen.width);
            text.push_str(&format!("{}{line}\n", " ".repeat(indent)));
        }
        // Commands are not wrapped, so that they can be copied.
        for command in &finding.commands {
            text.push_str(&format!("{}-> {}\n", " ".repeat(indent), one_line(command)));
        }
    }
    if findings.iter().any(|finding| finding.commands.iter().any(|c| c.starts_with("CONFIG SET"))) {
        text.push_str(
            "\nCONFIG SET ends with the server; CONFIG REWRITE puts it into redis.conf.\n",
        );
    }
    text.push_str(&format!("\n{}\n", summary(findings)));
    text
}

/// Returns the symbol of a level, the same in ASCII, and its colour.
fn signs(level: Level) -> (&'static str, &'static str, Paint) {
    match level {
        Level::Error => ("×", "x", Paint::Red),
        Level::Warning => ("‼", "!", Paint::Yellow),
        Level::Unknown => ("?", "?", Paint::Yellow),
        Level::Ok => ("√", "+", Paint::Green),
    }
}

/// Formats `1 error, 2 warnings, 1 not known, 9 ok`; a count of 0 is left out, except of errors.
fn summary(findings: &[Finding]) -> String {
    let words = [
        (Level::Error, "error", "errors"),
        (Level::Warning, "warning", "warnings"),
        (Level::Unknown, "not known", "not known"),
        (Level::Ok, "ok", "ok"),
    ];
    let counts = words.into_iter().filter_map(|(level, one, many)| {
        let count = findings.iter().filter(|finding| finding.level == level).count();
        (level == Level::Error || 0 < count).then(|| counted(count, one, many))
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// Breaks a text between words so that it fits a terminal; each line but the first is indented.
fn wrap(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_string() };
    let room = width.saturating_sub(indent).max(20);
    let (mut wrapped, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        if used != 0 && room < used + 1 + word.width() {
            wrapped.push_str(&format!("\n{}", " ".repeat(indent)));
            used = 0;
        } else if used != 0 {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += word.width();
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_findings() -> Vec<Finding> {
        vec![
            Finding::error("eviction", "maxmemory-policy allkeys-lru", "Redis throws keys away")
                .command("CONFIG SET maxmemory-policy noeviction")
                .on("a:1"),
            Finding::warning("memory", "without a maxmemory", "it grows")
                .advise("set it")
                .on("a:1"),
            Finding::unknown("settings", "CONFIG GET is refused", "so some are not judged"),
            Finding::ok("version", "Redis 7.0.15").on("a:1"),
        ]
    }

    #[test]
    fn the_worst_finding_has_a_next_step() {
        let expected = "\
redis://a:1

x eviction  maxmemory-policy allkeys-lru
            Redis throws keys away
            -> CONFIG SET maxmemory-policy noeviction
! memory    without a maxmemory
            it grows
            set it
? settings  CONFIG GET is refused
            so some are not judged
+ version   Redis 7.0.15

CONFIG SET ends with the server; CONFIG REWRITE puts it into redis.conf.

1 error, 1 warning, 1 not known, 1 ok
";
        let text = render("redis://a:1", &mk_findings(), false, Screen::PLAIN);
        assert_eq!(text, expected);
        let text = render("redis://a:1", &mk_findings(), true, Screen::PLAIN);
        for line in ["× eviction ", "‼ memory ", "? settings ", "√ version "] {
            assert!(text.contains(line), "{line:?} is not in:\n{text}");
        }
    }

    #[test]
    fn with_several_servers_each_finding_names_its_server() {
        let findings =
            [Finding::ok("version", "7").on("a:1"), Finding::ok("disk", "well").on("b:1")];
        let text = render("x", &findings, false, Screen::PLAIN);
        assert_eq!(text, "x\n\n+ version  7  (a:1)\n+ disk     well  (b:1)\n\n0 errors, 2 ok\n");
    }

    #[test]
    fn a_terminal_wraps_sentences_and_colours_the_mark() {
        let findings = [Finding::warning("memory", "a b", "one two three four five six seven")];
        let screen = Screen { width: Some(30), color: true };
        let text = render("x", &findings, false, screen);
        let expected = "\x1b[33m! memory\x1b[0m  a b\n          one two three four\n          \
                        five six seven\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn symbols_are_for_those_who_can_show_them() {
        let has_symbols = ["", "C", "de_DE", "en_US.UTF-8", "C.utf8"].map(is_utf8);
        assert_eq!(has_symbols, [false, false, false, true, true]);
    }
}

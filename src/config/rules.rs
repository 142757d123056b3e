//! The file of the user's error rules, in TOML: read and checked as a whole, with the line of every
//! mistake.
//!
//! ```toml
//! [[gone]]                        # if the owner of a target sends this pair, the target is gone
//! domain = "compute.example"
//! reason = "NO_SUCH_INSTANCE"
//!
//! [[rule]]                        # tried in this order, before the tables
//! name = "vendor-is-busy"
//! system = "http"
//! code = "409"
//! message = "index is rebuilding" # a part of the message, in either case
//! class = "DEPENDENCY"
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::Error;
use crate::domain::classify::finding::{Class, ErrorOrigin, ErrorOutcome};
use crate::domain::classify::own::{GonePair, OwnRule};
use crate::domain::classify::{Rules, is_reason, is_system};

/// Rules of one file. Each error is matched against them in order.
const RULES_MAX: usize = 1000;
/// Bytes of a rule's name.
const NAME_BYTES_MAX: usize = 63;
/// Bytes of the file: enough for the rules and their texts.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads and checks a file of rules.
pub fn read(path: &Path) -> Result<Rules, Error> {
    let unread = |error| Error::Read("error rules", path.to_path_buf(), error);
    let wrong = |problem| Error::Rules(path.to_path_buf(), problem);
    let bytes = std::fs::metadata(path).map_err(unread)?.len();
    if FILE_BYTES_MAX < bytes {
        return Err(wrong(format!("it has {bytes} bytes; at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(unread)?;
    let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let (rules, mistakes) = check(&text, file);
    match mistakes.is_empty() {
        true => Ok(rules),
        false => Err(wrong(mistakes.join("; "))),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    rule: Vec<Spanned<FileRule>>,
    gone: Vec<Spanned<FileGone>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGone {
    domain: Spanned<String>,
    reason: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    name: Spanned<String>,
    system: Option<Spanned<String>>,
    code: Option<String>,
    origin: Option<Spanned<String>>,
    outcome: Option<Spanned<String>>,
    domain: Option<String>,
    reason: Option<Spanned<String>>,
    message: Option<Spanned<String>>,
    class: Spanned<String>,
    #[serde(default)]
    explanation: String,
    remedy: Option<Spanned<String>>,
}

/// Collects the mistakes of a file, each with its line.
struct Check<'t> {
    text: &'t str,
    mistakes: Vec<String>,
}

impl Check<'_> {
    fn note<T>(&mut self, at: &Spanned<T>, what: impl std::fmt::Display) {
        let before = self.text.get(..at.span().start).unwrap_or_default();
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        self.mistakes.push(format!("line {line}: {what}"));
    }

    /// Returns the value that a word names; notes a mistake if the word is unknown.
    fn word<T: Copy>(
        &mut self,
        key: &str,
        given: &Spanned<String>,
        known: &[(&str, T)],
    ) -> Option<T> {
        let found = known.iter().find(|(word, _)| word == given.get_ref());
        if found.is_none() {
            let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            let word = given.get_ref();
            self.note(given, format!("{key} {word:?} is none of {}", words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    fn reason(&mut self, given: &Spanned<String>) {
        if !is_reason(given.get_ref()) {
            let word = given.get_ref();
            self.note(given, format!("reason {word:?} is not UPPER_SNAKE of at most 63 bytes"));
        }
    }
}

const ORIGINS: [(&str, ErrorOrigin); 3] = [
    ("PEER", ErrorOrigin::Peer),
    ("TRANSPORT", ErrorOrigin::Transport),
    ("LOCAL", ErrorOrigin::Local),
];

const OUTCOMES: [(&str, ErrorOutcome); 3] = [
    ("NOT_APPLIED", ErrorOutcome::NotApplied),
    ("UNKNOWN", ErrorOutcome::Unknown),
    ("REJECTED", ErrorOutcome::Rejected),
];

fn check(text: &str, file: File) -> (Rules, Vec<String>) {
    let mut check = Check { text, mistakes: Vec::new() };
    let mut rules = Rules::default();
    for gone in &file.gone {
        let pair = gone.get_ref();
        check.reason(&pair.reason);
        if pair.domain.get_ref().is_empty() {
            check.note(&pair.domain, "domain is empty; name the issuer of the reason");
        }
        rules.gone.insert(gone_pair(pair.domain.get_ref(), &pair.reason));
    }
    if let Some(surplus) = file.rule.get(RULES_MAX) {
        check.note(surplus, format!("there are more than {RULES_MAX} rules"));
    }
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for rule in file.rule.iter().take(RULES_MAX) {
        let name = &rule.get_ref().name;
        if !names.insert(name.get_ref()) {
            check.note(name, format!("name {:?} is taken by an earlier rule", name.get_ref()));
        }
        rules.own.extend(own_rule(&mut check, rule, &rules.gone));
    }
    (rules, check.mistakes)
}

fn gone_pair(domain: &str, reason: &Spanned<String>) -> GonePair {
    GonePair { domain: domain.into(), reason: reason.get_ref().as_str().into() }
}

fn own_rule(
    check: &mut Check<'_>,
    spanned: &Spanned<FileRule>,
    gone: &BTreeSet<GonePair>,
) -> Option<OwnRule> {
    let rule = spanned.get_ref();
    let classes = Class::ALL.map(|class| (class.word(), class));
    let class = check.word("class", &rule.class, &classes);
    let origin = rule.origin.as_ref().and_then(|word| check.word("origin", word, &ORIGINS));
    let outcome = rule.outcome.as_ref().and_then(|word| check.word("outcome", word, &OUTCOMES));
    check_words(check, spanned);
    let class = class?;
    check_class(check, rule, class, origin, gone);
    let text = |given: &Spanned<String>| given.get_ref().as_str().into();
    let own = |given: &Option<Spanned<String>>| given.as_ref().map(text);
    Some(OwnRule {
        name: text(&rule.name),
        system: own(&rule.system),
        code: rule.code.as_deref().map(Into::into),
        origin,
        outcome,
        domain: rule.domain.as_deref().map(Into::into),
        reason: own(&rule.reason),
        message: own(&rule.message),
        class,
        explanation: match rule.explanation.as_str() {
            "" => "matched by a rule of your own".into(),
            given => given.into(),
        },
        remedy: rule.remedy.as_ref().map_or_else(|| "".into(), text),
    })
}

/// Checks the name and the texts of a rule, and that the rule has a condition.
fn check_words(check: &mut Check<'_>, spanned: &Spanned<FileRule>) {
    let rule = spanned.get_ref();
    if let Some(system) = rule.system.as_ref().filter(|system| !is_system(system.get_ref())) {
        let given = system.get_ref();
        let text = format!(
            "system {given:?} is invalid: use 1 to 63 of a-z, 0-9, `.`, `_` and `-`; grpc, http, \
             python, helm, redis and io have tables"
        );
        check.note(system, text);
    }
    if let Some(reason) = &rule.reason {
        check.reason(reason);
    }
    if !(1..=NAME_BYTES_MAX).contains(&rule.name.get_ref().len()) {
        let text = format!("name has to have 1 to {NAME_BYTES_MAX} bytes: verdicts quote it");
        check.note(&rule.name, text);
    }
    if let Some(message) = rule.message.as_ref().filter(|message| message.get_ref().is_empty()) {
        check.note(message, "message is empty and matches every error; remove it");
    }
    let with_place = [&rule.system, &rule.origin, &rule.outcome, &rule.reason, &rule.message];
    let without = [&rule.code, &rule.domain];
    if with_place.iter().all(|given| given.is_none()) && without.iter().all(|given| given.is_none())
    {
        check.note(spanned, "the rule matches every error; say what it is about");
    }
}

/// Checks that a rule may set its class with these fields.
fn check_class(
    check: &mut Check<'_>,
    rule: &FileRule,
    class: Class,
    origin: Option<ErrorOrigin>,
    gone: &BTreeSet<GonePair>,
) {
    if origin == Some(ErrorOrigin::Transport) && Class::Interrupted < class {
        let text = "class needs an answer of the peer; origin TRANSPORT gives only TRANSIENT, \
                    THROTTLED, CONFLICT and INTERRUPTED";
        check.note(&rule.class, text);
    }
    let pair = rule.domain.as_deref().zip(rule.reason.as_ref());
    let is_registered =
        pair.is_some_and(|(domain, reason)| gone.contains(&gone_pair(domain, reason)));
    if class == Class::Gone && !is_registered {
        let text = "class GONE needs a domain and a reason that are registered; \
                    add them as [[gone]]";
        check.note(&rule.class, text);
    }
    if let Some(remedy) = rule.remedy.as_ref().filter(|_| class != Class::Blocked) {
        check.note(remedy, "remedy is for class BLOCKED only: no other class asks a person to act");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Rules, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_are_read() {
        let rules = load(
            "[[gone]]\ndomain = 'a.example'\nreason = 'NO_SUCH'\n\
             [[rule]]\nname = 'a'\nsystem = 'http'\ncode = '409'\nclass = 'BLOCKED'\nremedy = 'x'\n\
             [[rule]]\nname = 'b'\norigin = 'PEER'\ndomain = 'a.example'\nreason = 'NO_SUCH'\n\
             class = 'GONE'\n",
        );
        let rules = rules.unwrap();
        assert_eq!(rules.gone.len(), 1);
        let names: Vec<&str> = rules.own.iter().map(|rule| &*rule.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(load("").unwrap(), Rules::default());
    }

    #[test]
    fn mistakes_are_reported_with_their_lines() {
        let rule = "[[rule]]\nname = 'a'\n";
        for (text, expected) in [
            ("[[rule]\n", "line 1"),
            ("\n\nrules = 1\n", "line 3"),
            (&format!("{rule}code = '1'\n"), "missing field `class`"),
            (&format!("{rule}code = 409\nclass = 'FATAL'\n"), "line 3"),
            (&format!("{rule}code = '1'\nclass = 'BAD'\n"), "line 4: class \"BAD\" is none of UN"),
            (&format!("{rule}system = 'SOAP'\nclass = 'FATAL'\n"), "line 3: system \"SOAP\""),
            (&format!("{rule}origin = 'peer'\nclass = 'FATAL'\n"), "line 3: origin \"peer\""),
            (&format!("{rule}outcome = 'MAYBE'\nclass = 'FATAL'\n"), "line 3: outcome"),
            (&format!("{rule}reason = 'NoSuch'\nclass = 'FATAL'\n"), "line 3: reason \"NoSuch\""),
            (&format!("{rule}message = ''\nclass = 'FATAL'\n"), "line 3: message is empty"),
            (&format!("{rule}class = 'FATAL'\n"), "line 1: the rule matches every error"),
            (&format!("{rule}code = '1'\nclass = 'GONE'\n"), "line 4: class GONE needs"),
            (
                &format!("{rule}origin = 'TRANSPORT'\nclass = 'BLOCKED'\n"),
                "line 4: class needs an answer of the peer",
            ),
            (&format!("{rule}code = '1'\nclass = 'FATAL'\nremedy = 'x'\n"), "line 5: remedy"),
            (
                &format!("{rule}code = '1'\nclass = 'FATAL'\n{rule}code = '2'\nclass = 'FATAL'\n"),
                "line 6: name \"a\" is taken",
            ),
            ("[[gone]]\ndomain = ''\nreason = 'no'\n", "line 3: reason \"no\" is not UPPER_SNAKE"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        // Both mistakes in one error, so that one edit corrects them.
        let two = load(&format!("{rule}system = 'SOAP'\nclass = 'BAD'\n")).unwrap_err();
        assert!(two.contains("line 3") && two.contains("line 4"), "{two}");
    }
}

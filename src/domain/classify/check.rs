//! The check of rules as written: each mistake has its line.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;

use crate::domain::classify::finding::{Class, ErrorOrigin, ErrorOutcome};
use crate::domain::classify::own::{GonePair, Rules};
use crate::domain::classify::rule::{Rule, When};
use crate::domain::classify::word::{REASON, is_reason, is_system};
use crate::domain::classify::written::{Head, Texts, Written, WrittenGone};

/// Rules of one file. Each error is matched against them in order.
const RULES_MAX: usize = 1000;
/// Bytes of a rule's name.
const NAME_BYTES_MAX: usize = 63;

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

/// Collects the mistakes of a file, each with its line.
pub(in crate::domain) struct Check<'t> {
    text: &'t str,
    mistakes: Vec<String>,
}

impl<'t> Check<'t> {
    pub(in crate::domain) fn new(text: &'t str) -> Check<'t> {
        Check { text, mistakes: Vec::new() }
    }

    /// Returns the mistakes, if there are any.
    pub(in crate::domain) fn finish(self) -> Result<(), String> {
        match self.mistakes.is_empty() {
            true => Ok(()),
            false => Err(self.mistakes.join("; ")),
        }
    }

    /// Checks the file of an operator.
    pub(in crate::domain) fn own(
        &mut self,
        gone: &[Spanned<WrittenGone>],
        written: &[Spanned<Written>],
    ) -> Rules {
        let mut rules = Rules::default();
        for gone in gone {
            let pair = gone.get_ref();
            self.reason(&pair.reason, pair.reason.get_ref());
            if pair.domain.get_ref().is_empty() {
                self.note(&pair.domain, "domain is empty; name the issuer of the reason");
            }
            let (domain, reason) = (pair.domain.get_ref(), pair.reason.get_ref());
            rules.gone.insert(gone_pair(domain, reason));
        }
        if let Some(surplus) = written.get(RULES_MAX) {
            self.note(surplus, format!("there are more than {RULES_MAX} rules"));
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for one in written.iter().take(RULES_MAX) {
            let name = &one.get_ref().name;
            if !names.insert(name.get_ref()) {
                self.note(name, format!("name {:?} is taken by an earlier rule", name.get_ref()));
            }
            let rule = self.rule(one);
            self.may_be_gone(one.get_ref(), &rules.gone);
            rules.own.push(rule);
        }
        rules
    }

    /// Checks a table of this server. The rows of one name have one meaning.
    pub(in crate::domain) fn table(
        &mut self,
        head: &Head,
        written: &[Spanned<Written>],
    ) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut of_name = BTreeMap::new();
        for one in written {
            let row = one.get_ref();
            let mut rule = self.rule(one);
            if row.system.is_some() {
                self.note(one, "a row has the system of its table");
            }
            if rule.source.is_empty() {
                rule.source = head.source.clone();
            }
            if rule.source.is_empty() || row.explanation.is_empty() {
                self.note(one, "a row needs a source and an explanation");
            }
            if (rule.class == Class::Blocked) == rule.remedy.is_empty() {
                self.note(one, "a row of class BLOCKED needs a remedy, and no other one has it");
            }
            let meaning = (rule.class, rule.unheld, rule.explanation.clone(), rule.remedy.clone());
            let known = of_name.entry(rule.name.clone()).or_insert_with(|| meaning.clone());
            if *known != meaning {
                self.note(&row.name, "rows of one name have one class, explanation and remedy");
            }
            rule.system = Some(head.system.clone());
            rules.push(rule);
        }
        rules
    }

    fn rule(&mut self, spanned: &Spanned<Written>) -> Rule {
        let rule = spanned.get_ref();
        let classes = Class::ALL.map(|class| (class.word(), class));
        let whens = When::ALL.map(|when| (when.word(), when));
        let class = self.word("class", &rule.class, &classes);
        let origin = rule.origin.as_ref().and_then(|word| self.word("origin", word, &ORIGINS));
        let outcome = rule.outcome.as_ref().and_then(|word| self.word("outcome", word, &OUTCOMES));
        let when = rule.when.as_ref().and_then(|word| self.word("when", word, &whens));
        self.texts(spanned);
        if let Some(class) = class {
            self.class(rule, class, origin);
        }
        let holds = rule.holds.as_ref().map(|given| *given.get_ref());
        let list = |given: &Option<Spanned<Texts>>| -> Vec<Box<str>> {
            let texts = given.as_ref().map_or(&[][..], |given| given.get_ref().all());
            texts.iter().map(|text| text.as_str().into()).collect()
        };
        let parts = list(&rule.message).iter().map(|part| part.to_lowercase().into()).collect();
        let rule = Rule {
            name: rule.name.get_ref().as_str().into(),
            system: rule.system.as_ref().map(|system| system.get_ref().as_str().into()),
            codes: list(&rule.code),
            origin,
            outcome,
            domain: rule.domain.as_deref().map(Into::into),
            reasons: list(&rule.reason),
            messages: parts,
            needles: Vec::new(),
            when,
            class: class.unwrap_or_default(),
            unheld: class.is_some_and(Class::holds) && holds == Some(false),
            explanation: match rule.explanation.as_str() {
                "" => "matched by a rule of your own".into(),
                given => given.into(),
            },
            remedy: rule.remedy.as_ref().map_or("", |given| given.get_ref()).into(),
            source: rule.source.as_deref().unwrap_or_default().into(),
        };
        rule.with_needles()
    }

    /// Checks the name and the texts of a rule, and that the rule has a condition.
    fn texts(&mut self, spanned: &Spanned<Written>) {
        let rule = spanned.get_ref();
        if let Some(system) = rule.system.as_ref().filter(|system| !is_system(system.get_ref())) {
            let given = system.get_ref();
            let text = format!(
                "system {given:?} is invalid: use 1 to 63 of a-z, 0-9, `.`, `_` and `-`; \
                 `bellwether explain-error --list` has those with a table"
            );
            self.note(system, text);
        }
        if let Some(reasons) = &rule.reason {
            let all = reasons.get_ref().all();
            all.iter().for_each(|reason| self.reason(reasons, reason));
        }
        if !(1..=NAME_BYTES_MAX).contains(&rule.name.get_ref().len()) {
            let text = format!("name has to have 1 to {NAME_BYTES_MAX} bytes: verdicts quote it");
            self.note(&rule.name, text);
        }
        let lists = [("code", &rule.code), ("reason", &rule.reason), ("message", &rule.message)];
        for (key, given) in lists {
            let Some(given) = given else { continue };
            let all = given.get_ref().all();
            if all.is_empty() || key == "message" && all.iter().any(String::is_empty) {
                self.note(given, format!("{key} is empty and matches every error; remove it"));
            }
        }
        let has_condition = rule.system.is_some()
            || rule.code.is_some()
            || rule.origin.is_some()
            || rule.outcome.is_some()
            || rule.domain.is_some()
            || rule.reason.is_some()
            || rule.message.is_some()
            || rule.when.is_some();
        if !has_condition {
            self.note(spanned, "the rule matches every error; say what it is about");
        }
    }

    /// Checks that a rule may set its class with these fields.
    fn class(&mut self, rule: &Written, class: Class, origin: Option<ErrorOrigin>) {
        if origin == Some(ErrorOrigin::Transport) && Class::Interrupted < class {
            let text = "class needs an answer of the peer; origin TRANSPORT gives only TRANSIENT, \
                        THROTTLED, CONFLICT and INTERRUPTED";
            self.note(&rule.class, text);
        }
        if let Some(remedy) = rule.remedy.as_ref().filter(|_| class != Class::Blocked) {
            let text = "remedy is for class BLOCKED only: no other class asks a person to act";
            self.note(remedy, text);
        }
        if let Some(holds) = rule.holds.as_ref().filter(|_| !class.holds()) {
            let text = "holds is for the classes BLOCKED, GONE and FATAL: no other class holds";
            self.note(holds, text);
        }
    }

    /// Checks that a rule of class GONE has a registered pair.
    fn may_be_gone(&mut self, rule: &Written, gone: &BTreeSet<GonePair>) {
        let pairs = rule.domain.as_deref().zip(rule.reason.as_ref());
        let is_registered = pairs.is_some_and(|(domain, reasons)| {
            let mut all = reasons.get_ref().all().iter();
            all.all(|reason| gone.contains(&gone_pair(domain, reason)))
        });
        if rule.class.get_ref() == Class::Gone.word() && !is_registered {
            let text = "class GONE needs a domain and a reason that are registered; \
                        add them as [[gone]]";
            self.note(&rule.class, text);
        }
    }

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

    fn reason<T>(&mut self, at: &Spanned<T>, word: &str) {
        if !is_reason(word) {
            self.note(at, format!("reason {word:?} is not {REASON}"));
        }
    }
}

fn gone_pair(domain: &str, reason: &str) -> GonePair {
    GonePair { domain: domain.into(), reason: reason.into() }
}

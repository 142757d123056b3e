//! Words of states: controllers of others write `Ready`, `InProgress`, `reconcile-failed` or
//! `NotReady` without a common list. A word that none of these lists has is not understood.

/// What a word says about its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// It has failed.
    Failed,
    /// It is not as it should be, and may get there: `NotReady`.
    NotGood,
    /// It is on the way.
    Busy,
    /// It is stopped on purpose.
    Suspended,
    /// It is as it should be.
    Good,
}

const FAILED: &str = " fail failed failure failures failing error errors errored degraded stalled \
    invalid unhealthy conflict terminal unavailable missing denied rejected refused exceeded crash \
    crashed crashloop broken fatal aborted lost dead expired misconfigured unreachable \
    unauthorized forbidden unresolved unsupported red blocked inconclusive unable cannot \
    noncompliant violation disconnected deleted timeout timedout inactive incompatible notfound \
    nok ";

const BUSY: &str = " progressing progress pending creating updating upgrading deleting terminating \
    provisioning initializing initialising reconciling issuing installing scaling starting \
    stopping restarting waiting scheduling scheduled deploying importing cloning migrating rolling \
    rollout applying processing queued preparing promoting finalising finalizing configuring \
    setting bootstrapping resizing syncing refreshing validating unknown yellow new inprogress \
    building pulling restoring joining outofsync awaiting requested submitted unready \
    upgradepending ";

const SUSPENDED: &str = " paused suspended suspend pause stopped disabled hibernated standby ";

const GOOD: &str = " ready available healthy synced succeeded success successful successfully \
    complete completed established accepted programmed reconciled bound deployed applied active \
    running up ok green valid exists provisioned initialized created installed online current \
    attached compliant finished done promoted enabled connected admitted resolved passed \
    associated configured verified optimal normal ";

const NEGATIONS: &str = " not non no never without ";

/// Words that tell in a sentence that something failed.
const FAILED_PARTS: [&str; 26] = [
    "fail",
    "error",
    "cannot",
    "can't",
    "could not",
    "unable",
    "invalid",
    "denied",
    "not found",
    "forbidden",
    "refused",
    "not exist",
    "n't exist",
    "unauthori",
    "exceeded",
    "crash",
    "timed out",
    "timeout",
    "no such",
    "missing",
    "unhealthy",
    "reject",
    "conflict",
    "not supported",
    "not allowed",
    "unavailable",
];

/// Words that tell in a sentence that something is under way.
const BUSY_PARTS: [&str; 12] = [
    "waiting",
    "progress",
    "pending",
    "creating",
    "being",
    "not yet",
    "starting",
    "initiali",
    "provisioning",
    "issuing",
    "updating",
    "rolling",
];

/// A text with more words than this is a sentence, not a state.
const STATE_WORDS_MAX: usize = 5;

/// Returns what a state says: `Ready`, `InProgress`, `reconcile-failed`; `None` if no word of it is
/// known.
pub fn of(state: &str) -> Option<Word> {
    let words = split(state);
    if STATE_WORDS_MAX < words.len() {
        return tells_failure(state).then_some(Word::Failed);
    }
    let has = |list: &str| words.iter().any(|word| list.contains(&format!(" {word} ")));
    let negated = has(NEGATIONS);
    if has(FAILED) {
        // `NoConflicts`, and not `NotAvailable, failed`.
        let is_denied = negated && !has(GOOD) && !words.iter().any(|word| word == "not");
        return Some(if is_denied { Word::Good } else { Word::Failed });
    }
    if has(SUSPENDED) {
        return Some(Word::Suspended);
    }
    if has(BUSY) {
        return Some(Word::Busy);
    }
    has(GOOD).then_some(if negated { Word::NotGood } else { Word::Good })
}

/// Returns whether a sentence tells that something failed.
pub fn tells_failure(sentence: &str) -> bool {
    let sentence = sentence.to_lowercase();
    FAILED_PARTS.iter().any(|part| starts_word(&sentence, part))
}

/// Returns whether a sentence tells that something is under way.
pub fn tells_work(sentence: &str) -> bool {
    let sentence = sentence.to_lowercase();
    BUSY_PARTS.iter().any(|part| starts_word(&sentence, part))
}

/// Returns whether a word of the sentence starts with `part`.
fn starts_word(sentence: &str, part: &str) -> bool {
    let is_start = |at: usize| !sentence[..at].ends_with(|c: char| c.is_alphanumeric());
    let is_inner = part.starts_with("n't");
    sentence.match_indices(part).any(|(at, _)| is_inner || is_start(at))
}

/// Splits `ReconcileFailed`, `IN_PROGRESS` and `not ready` into words in lower case.
fn split(text: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let letters: Vec<char> = text.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(at + 1);
        let begins = letter.is_ascii_uppercase()
            && (before.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
                || before.is_some_and(|c| c.is_ascii_uppercase())
                    && after.is_some_and(char::is_ascii_lowercase));
        if begins || !letter.is_ascii_alphabetic() {
            words.push(String::new());
        }
        if letter.is_ascii_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_in_any_spelling() {
        for (state, expected) in [
            ("Ready", Some(Word::Good)),
            ("IN_PROGRESS", Some(Word::Busy)),
            ("InProgress", Some(Word::Busy)),
            ("reconcile-failed", Some(Word::Failed)),
            ("NotReady", Some(Word::NotGood)),
            ("NonCompliant", Some(Word::NotGood)),
            ("NoConflicts", None),
            ("NoErrors", Some(Word::Good)),
            ("Paused", Some(Word::Suspended)),
            ("EKSControlPlaneReady", Some(Word::Good)),
            ("Flying", None),
            ("", None),
            ("Another MinIO Tenant already exists in the namespace", None),
            ("the operator failed to create a pod", Some(Word::Failed)),
        ] {
            assert_eq!(of(state), expected, "{state}");
        }
    }

    #[test]
    fn a_sentence_tells_a_failure_or_work() {
        assert!(tells_failure("Secret \"db\" not found") && tells_failure("it doesn't exist"));
        assert!(!tells_failure("all is well") && !tells_failure("terrorform"));
        assert!(tells_work("Waiting for the database") && !tells_work("done"));
    }
}

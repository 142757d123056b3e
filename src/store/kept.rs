//! The head of an application as it is kept for as long as the application exists.
//!
//! A replica keeps the heads of all applications and works on a few of them. The head of an
//! application that another replica works on is kept as the bytes in which it arrived: a fourth of
//! the memory, and one allocation. What each change reads of the head before is in front of them;
//! everything else is decoded when a reader asks for it, and not kept.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::domain::app::Head;
use crate::domain::health;
use crate::domain::level::Level;
use crate::domain::met::is_silent;
use crate::domain::policy::Config;
use crate::domain::revision::Revision;
use crate::domain::severity::Severity;
use crate::domain::time::Timestamp;

use super::codec;

/// The head of an application.
#[derive(Debug, Clone)]
pub enum KeptHead {
    /// As it is, shared with who decided it.
    Whole(Arc<Head>),
    /// In few bytes.
    Packed(PackedHead),
}

/// A head in few bytes: the facts in front, then the encoded head without a configuration that is
/// the default.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedHead(Arc<[u8]>);

/// The encoded default configuration, of which an application has its own rarely.
static DEFAULT_CONFIG: LazyLock<Vec<u8>> =
    LazyLock::new(|| codec::encode_body(&*Config::default().shared()));

/// The configuration is among the first fields of a head.
const SEARCHED: usize = 40;

/// The places of the facts in front of the encoded head.
const REVISION: usize = 0;
const SINCE: usize = 8;
const LEVEL: usize = 16;
const FLAGS: usize = 17;
/// The place in the encoded head at which the default configuration is left out.
const CUT: usize = 18;
const BODY: usize = 19;
/// Nothing is left out.
const WHOLE: u8 = u8::MAX;

/// The flags.
const DELETED: u8 = 1;
const SERVES: u8 = 1 << 1;
const SILENT: u8 = 1 << 2;
const MARKED: u8 = 1 << 3;
const HAS_FAULTS: u8 = 1 << 4;
const HAS_MARKS: u8 = 1 << 5;

impl KeptHead {
    /// Returns the revision.
    pub fn revision(&self) -> Revision {
        match self {
            KeptHead::Whole(head) => head.revision,
            KeptHead::Packed(packed) => Revision(packed.number(REVISION)),
        }
    }

    /// Returns whether the application is deleted.
    pub fn is_deleted(&self) -> bool {
        match self {
            KeptHead::Whole(head) => head.deleted,
            KeptHead::Packed(packed) => packed.has(DELETED),
        }
    }

    /// Returns whether the application serves; see [`health::serves`].
    pub fn serves(&self) -> bool {
        match self {
            KeptHead::Whole(head) => health::serves(head),
            KeptHead::Packed(packed) => packed.has(SERVES),
        }
    }

    /// Returns the severity of the application.
    pub fn severity(&self) -> Severity {
        match self {
            KeptHead::Whole(head) => health::severity(head),
            KeptHead::Packed(packed) => {
                Severity::of(self.level(), packed.has(SILENT), packed.has(MARKED))
            }
        }
    }

    /// Returns whether the application has open faults.
    pub fn has_faults(&self) -> bool {
        match self {
            KeptHead::Whole(head) => 0 < head.open_faults.count,
            KeptHead::Packed(packed) => packed.has(HAS_FAULTS),
        }
    }

    /// Returns whether the application has marks.
    pub fn has_marks(&self) -> bool {
        match self {
            KeptHead::Whole(head) => head.marks.is_some(),
            KeptHead::Packed(packed) => packed.has(HAS_MARKS),
        }
    }

    /// Returns the level.
    pub fn level(&self) -> Level {
        match self {
            KeptHead::Whole(head) => head.summary.level,
            KeptHead::Packed(packed) => Level::ALL[usize::from(packed.0[LEVEL])],
        }
    }

    /// Returns since when the application has this level.
    pub fn since(&self) -> Timestamp {
        match self {
            KeptHead::Whole(head) => head.summary.since,
            KeptHead::Packed(packed) => Timestamp::new(packed.number(SINCE)),
        }
    }

    /// Returns the whole head. Decodes a packed one each time.
    pub fn head(&self) -> Arc<Head> {
        match self {
            KeptHead::Whole(head) => head.clone(),
            KeptHead::Packed(packed) => Arc::new(packed.unpack()),
        }
    }
}

impl PackedHead {
    /// Packs a head that was decoded from `encoded`.
    pub(super) fn of(head: &Head, encoded: &[u8]) -> PackedHead {
        let config = &**DEFAULT_CONFIG;
        let mut first = encoded.windows(config.len()).take(SEARCHED);
        let cut = first.position(|part| part == config).and_then(|at| u8::try_from(at).ok());
        let (before, after) = match cut {
            Some(at) => {
                let (before, rest) = encoded.split_at(at.into());
                (before, &rest[config.len()..])
            }
            None => (encoded, &[][..]),
        };
        let mut facts = [0; BODY];
        facts[REVISION..SINCE].copy_from_slice(&head.revision.0.to_le_bytes());
        facts[SINCE..LEVEL].copy_from_slice(&head.summary.since.millis().to_le_bytes());
        facts[LEVEL] = head.summary.level as u8;
        facts[FLAGS] = flags(head);
        facts[CUT] = cut.unwrap_or(WHOLE);
        PackedHead([&facts[..], before, after].concat().into())
    }

    /// Packs a head.
    #[cfg(any(test, feature = "testing"))]
    pub fn pack(head: &Head) -> PackedHead {
        PackedHead::of(head, &codec::encode_body(head))
    }

    fn unpack(&self) -> Head {
        let body = &self.0[BODY..];
        let decoded = match self.0[CUT] {
            WHOLE => codec::decode_body(body),
            cut => {
                let (before, after) = body.split_at(cut.into());
                codec::decode_body(&[before, &**DEFAULT_CONFIG, after].concat())
            }
        };
        decoded.expect("these bytes were decoded before they were packed")
    }

    fn has(&self, flag: u8) -> bool {
        self.0[FLAGS] & flag != 0
    }

    fn number(&self, at: usize) -> u64 {
        let bytes = self.0[at..].first_chunk().expect("the facts are in front");
        u64::from_le_bytes(*bytes)
    }
}

fn flags(head: &Head) -> u8 {
    let flags = [
        (DELETED, head.deleted),
        (SERVES, health::serves(head)),
        (SILENT, is_silent(head)),
        (MARKED, health::is_marked(head)),
        (HAS_FAULTS, 0 < head.open_faults.count),
        (HAS_MARKS, head.marks.is_some()),
    ];
    flags.into_iter().filter(|(_, is_set)| *is_set).fold(0, |flags, (flag, _)| flags | flag)
}

impl fmt::Debug for PackedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unpack().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::domain::fault::open::OpenFaults;
    use crate::domain::mark::head::MarkSummary;
    use crate::domain::summary::{Summary, Totals};

    use super::*;

    /// Returns heads of each level, with and without what has a flag.
    fn heads() -> Vec<Head> {
        let mut heads = vec![Head::empty(Revision(0)), Head::empty(Revision(u64::MAX))];
        for (number, level) in (1..).zip(Level::ALL) {
            let totals = Totals { units: 3, stale_units: number % 2, ..Totals::default() };
            let since = Timestamp::new(u64::from(number) << 40);
            let message = "x".repeat(40 * number as usize).into();
            let summary = Summary { level, since, message, totals, ..Summary::default() };
            let mut config = Config::default();
            if number % 3 == 0 {
                config.collect_interval = Duration::from_millis(1234);
            }
            heads.push(Head {
                create_time: Timestamp::new(u64::MAX - 1),
                config: config.shared(),
                summary: Arc::new(summary),
                deleted: number % 4 == 3,
                open_faults: OpenFaults { count: number / 5, next_retry: None },
                // A head with marks always has needs.
                needs: (number == 2).then(Arc::default),
                marks: (number == 2).then(|| Arc::new(MarkSummary::default())),
                ..Head::empty(Revision(u64::from(number) << 30))
            });
        }
        heads
    }

    #[test]
    fn a_packed_head_says_the_same_as_the_whole_one() {
        let heads = heads();
        for head in &heads {
            let whole = KeptHead::Whole(Arc::new(head.clone()));
            let packed = KeptHead::Packed(PackedHead::pack(head));
            assert_eq!(*packed.head(), *head);
            let facts = |kept: &KeptHead| {
                let state = (kept.revision(), kept.level(), kept.since(), kept.is_deleted());
                (state, kept.serves(), kept.severity(), kept.has_faults(), kept.has_marks())
            };
            assert_eq!(facts(&packed), facts(&whole), "{head:?}");
        }
        assert!(heads.iter().any(|head| head.marks.is_some()));
        assert!(heads.iter().any(|head| 0 < head.open_faults.count));
    }

    #[test]
    fn the_default_configuration_takes_no_bytes() {
        let config = DEFAULT_CONFIG.len();
        for head in heads() {
            let encoded = codec::encode_body(&head).len();
            let is_default = *head.config == Config::default();
            let packed = PackedHead::pack(&head).0.len();
            assert_eq!(packed, BODY + encoded - if is_default { config } else { 0 }, "{head:?}");
        }
    }
}

//! Every bound, each with its reason.

use std::time::Duration;

/// Bytes of a namespace, application, unit, component or key: a DNS name fits, as pods have.
pub const NAME_BYTES_MAX: usize = 253;
/// Bytes of a message, check or action: a stack trace does not belong into a status, a paragraph
/// may.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// Characters of a short message: what `juju status` and narrow tables can show.
pub const SHORT_MESSAGE_CHARS_MAX: usize = 40;
/// Labels of a status: as many as Kubernetes tools show without folding.
pub const LABELS_MAX: usize = 64;
/// Bytes of the key and of the value of a label: as Kubernetes.
pub const LABEL_BYTES_MAX: usize = 63;
/// Bytes of a request id: a UUID with a prefix.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// Priority and precedence lie within plus and minus this: sums of them cannot overflow.
pub const PRIORITY_MAX: i32 = 1_000_000;
/// Shortest ttl: below a second the network decides, not the worker.
pub const TTL_MIN: Duration = Duration::from_secs(1);
/// Longest ttl: what is believed for longer should be pushed without one.
pub const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long an answer is remembered for its request id.
pub const REQUEST_TTL: Duration = Duration::from_secs(10 * 60);
/// Silence after the last ttl before a unit is lost, unless configured: two missed minutes, as
/// Juju's agents.
pub const LOST_AFTER_DEFAULT: Duration = Duration::from_secs(120);
/// Callbacks that are promised to one unit: one of each target that it retries.
pub const CALLBACKS_PER_UNIT_MAX: usize = 1024;
/// How often connected units are asked how they are, unless configured: as often as Juju's
/// update-status.
pub const COLLECT_INTERVAL_DEFAULT: Duration = Duration::from_secs(300);
/// Bounds of that interval.
pub const COLLECT_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Results in a row that a latch may wait for: one would be none, and of a hundred nobody sees the
/// end.
pub const GOOD_COUNT: std::ops::RangeInclusive<u32> = 2..=100;
/// Latches of an application, and components that are damped: both are looked through at each
/// report.
pub const DAMPENERS_MAX: usize = 64;
/// Shortest and longest time without a swing after which a flapping status is calm.
pub const CALM_AFTER_MIN: Duration = Duration::from_secs(1);
/// See [`CALM_AFTER_MIN`].
pub const CALM_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// The same unless configured: as long as Icinga waits between two checks.
pub const CALM_AFTER_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// How long a lease lasts unless configured, and its bounds: as long as those of Kubernetes, and
/// not so short that one lost packet unseats a leader.
pub const LEASE_DURATION_DEFAULT: Duration = Duration::from_secs(15);
/// See [`LEASE_DURATION_DEFAULT`].
pub const LEASE_DURATION_MIN: Duration = Duration::from_secs(2);
/// See [`LEASE_DURATION_DEFAULT`].
pub const LEASE_DURATION_MAX: Duration = Duration::from_secs(5 * 60);
/// Bytes of a key of an application's data.
pub const DATA_KEY_BYTES_MAX: usize = 256;
/// Bytes of one value: settings and references, not files.
pub const DATA_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all keys and values of one application: a reader gets them in one message, of which
/// clients take 4 MiB.
pub const DATA_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Keys of one application's data: a key an event is noticed early.
pub const DATA_KEYS_MAX: usize = 10_000;
/// Records that time alone changes in one commit: 100,000 due at once are ten commits, not one of
/// many seconds.
pub const EXPIRED_PER_COMMIT_MAX: usize = 10_000;
/// Units that are fenced when their application is deleted: as many records as any other commit
/// may have.
pub const FENCES_PER_DELETION_MAX: usize = EXPIRED_PER_COMMIT_MAX;
/// Entries of a page, and of one if the caller does not say.
pub const PAGE_SIZE_MAX: usize = 1000;
/// See [`PAGE_SIZE_MAX`].
pub const PAGE_SIZE_DEFAULT: usize = 100;

/// Bounds that an operator may move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Units of one application.
    pub units_max: usize,
    /// Statuses of one unit, so that one unit cannot crowd out the rest.
    pub statuses_per_unit_max: usize,
    /// Keys of one component, so that a key per event is noticed early.
    pub keys_per_component_max: usize,
    /// Request ids remembered for one application; the oldest go first.
    pub request_ids_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            units_max: 100_000,
            statuses_per_unit_max: 4096,
            keys_per_component_max: 1024,
            request_ids_max: 1024,
        }
    }
}

//! Every bound, each with its reason.

use std::time::Duration;

use super::usage::Usage;

/// Bytes of a namespace, application, unit, component or key: a DNS name fits, as pods have.
pub const NAME_BYTES_MAX: usize = 253;
/// Bytes of a message, check or action: a stack trace does not belong into a status, a paragraph
/// may.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// Bytes of a value before or after a change of the history: a name fits.
pub const CHANGE_BYTES_MAX: usize = 256;
/// Characters of a short message: what `juju status` and narrow tables can show.
pub const SHORT_MESSAGE_CHARS_MAX: usize = 40;
/// Labels of a status: as many as Kubernetes tools show without folding.
pub const LABELS_MAX: usize = 64;
/// How far an incarnation that a worker gives may be above the newest one known: a store that lost
/// writes may have given out some that it no longer knows, but no more than these.
pub const INCARNATION_STEP_MAX: u64 = 1 << 32;
/// Highest incarnation that a worker may give before the server did: beyond it there are as many
/// again, so that no report can use up those that are left to give out.
pub const INCARNATION_MAX: u64 = 1 << 63;
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
/// Attempts in a row after which a fault shows waiting, unless configured: one may be chance.
pub const FAULT_SOFT_COUNT: u32 = 3;
/// The same in time since the first of them: about as long as a pod takes to restart.
pub const FAULT_SOFT_AFTER: Duration = Duration::from_secs(30);
/// Attempts in a row after which a fault shows error, unless configured: as long as people want to
/// wait before something fails hard.
pub const FAULT_HARD_COUNT: u32 = 10;
/// The same in time since the first of them.
pub const FAULT_HARD_AFTER: Duration = Duration::from_secs(600);
/// The first wait before a failed call is tried again, doubled for each next one: as Omicron.
pub const RETRY_BASE: Duration = Duration::from_millis(250);
/// The first wait of what is throttled: four times as patient, as AWS.
pub const THROTTLED_BASE: Duration = Duration::from_secs(1);
/// The longest wait that we choose: as Omicron.
pub const RETRY_MAX: Duration = Duration::from_secs(180);
/// The longest wait that a peer can ask for: beyond that it is not there.
pub const PUSHBACK_MAX: Duration = Duration::from_secs(24 * 3600);
/// The wait for what something else must bring about: about as long as pods take to come up.
pub const DEFER_INTERVAL: Duration = Duration::from_secs(30);
/// Tries of one application that fall into one second, unless configured: what was away is not to
/// be buried under those that waited for it.
pub const RETRIES_PER_SECOND_MAX: u32 = 100;
/// Bytes of what is for operators only: a stack trace with its causes.
pub const INTERNAL_DETAIL_BYTES_MAX: usize = 65_536;
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
/// Bytes of a payload kept here: a manifest fits, an image belongs behind a URI.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 10;
/// Bytes of a checkpoint: where to go on, not what was done. It is written at each heartbeat.
pub const CHECKPOINT_BYTES_MAX: usize = 64 << 10;
/// Bytes of what an operation says of its progress, and of a version: both stand in one line.
pub const PROGRESS_BYTES_MAX: usize = 256;
/// Bytes of a URI: what proxies and browsers take.
pub const URI_BYTES_MAX: usize = 2048;
/// Transitions that an operation remembers; the oldest go first.
pub const OPERATION_EVENTS_MAX: usize = 64;
/// Finished operations that an application remembers; the oldest go first, and those that are too
/// old.
pub const OPERATIONS_FINISHED_MAX: usize = 32;
/// Age at which a finished operation is forgotten, once another one is begun: a month of upgrades.
pub const OPERATION_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Lease of an operation, unless it says: a crash shows within half a minute, and a worker that
/// renews at a third of it may miss two.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// Bounds of a lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// See [`LEASE_MIN`].
pub const LEASE_MAX: Duration = Duration::from_secs(3600);
/// Failures of an operation that fail it, unless it says: as Argo CD retries.
pub const ATTEMPTS_DEFAULT: u32 = 5;
/// Interruptions that an operation takes, unless it says: nodes are drained more often than
/// upgrades fail.
pub const INTERRUPTIONS_DEFAULT: u32 = 10;
/// Most failures and interruptions that can be allowed: more is no bound.
pub const ATTEMPTS_MAX: u32 = 1000;
/// How long an operation may wait for a worker before the application shows that it waits.
pub const OPERATION_UNCLAIMED_MAX: Duration = Duration::from_secs(15 * 60);
/// Longest wait that a peer can ask for between two attempts.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
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
    /// Request ids remembered for one unit of it, so that one unit cannot push out the rest; the
    /// oldest go first.
    pub request_ids_per_unit_max: usize,
    /// Open faults of one application.
    pub faults_max: usize,
    /// Open faults of one unit, so that a target per request is noticed early.
    pub faults_per_unit_max: usize,
    /// Lines of history that the store keeps of one application; older ones go first.
    pub events_max: u64,
    /// What all applications together may use. What is under way at other applications is not
    /// counted, so it can be passed by that much. A count that is at its bound refuses what would
    /// add to it; what replaces, clears, removes or deletes is taken.
    pub total: Usage,
    /// Thresholds and times of faults.
    pub faults: super::fault::Settings,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            units_max: 100_000,
            statuses_per_unit_max: 4096,
            keys_per_component_max: 1024,
            request_ids_max: 1024,
            request_ids_per_unit_max: 256,
            faults_max: 10_000,
            faults_per_unit_max: 256,
            events_max: 1000,
            total: TOTAL,
            faults: super::fault::Settings::default(),
        }
    }
}

/// What all applications together may use unless configured: what a server of 8 GiB serves, and a
/// disk of 64 GiB holds, when a single caller fills all of it.
pub const TOTAL: Usage = Usage {
    units: 500_000,
    statuses: 2_000_000,
    faults: 100_000,
    operations: 1_000_000,
    data_bytes: 1 << 30,
    record_bytes: 2 << 30,
    history_bytes: 16 << 30,
};

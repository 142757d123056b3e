//! Every limit, each with its reason.

use std::time::Duration;

use crate::domain::model::usage::Usage;

/// Bytes of a namespace, application, unit, component or key: a DNS name fits, as for pods.
pub const NAME_BYTES_MAX: usize = 253;

/// Bytes of a message, check or action: a paragraph fits, a stack trace does not.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// Bytes of a value before or after a change of the history: a name fits.
pub const CHANGE_BYTES_MAX: usize = 256;

/// Characters of a short message: the width of `juju status` and narrow tables.
pub const SHORT_MESSAGE_CHARS_MAX: usize = 40;

/// Statuses of an application itself, beside those of its units: a charm has some ten for each of
/// its components.
pub const OWN_STATUSES_MAX: usize = 1024;

/// Labels of a status: as many as Kubernetes tools show without folding.
pub const LABELS_MAX: usize = 64;

/// Needs of one status or error: a worker that needs more can say which it needs first.
pub const NEEDS_MAX: usize = 8;

/// Marks of one application: a person reads them all.
pub const MARKS_MAX: usize = 64;

/// Marks of all applications of a server together.
pub const MARKS_TOTAL_MAX: u64 = 100_000;

/// Longest time from the start of a mark to its end: what takes longer is no exception any more.
pub const MARK_LENGTH_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Longest time from now to the start of a planned mark: a quarter's work can be planned.
pub const MARK_AHEAD_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// Bytes of the id of a mark.
pub const MARK_ID_BYTES_MAX: usize = 128;

/// Largest step of a worker's incarnation above the newest stored one: a store that lost writes may
/// have assigned incarnations that it no longer has, but fewer than these.
pub const INCARNATION_STEP_MAX: u64 = 1 << 32;

/// Highest incarnation that a worker may use before the server assigned it. The upper half stays
/// free, so that no report can use up the incarnations that the server assigns.
pub const INCARNATION_MAX: u64 = 1 << 63;

/// Bytes of the key and of the value of a label: as Kubernetes.
pub const LABEL_BYTES_MAX: usize = 63;

/// Bytes of a request id: a UUID with a prefix.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// Priority and precedence lie within plus and minus this: sums of them cannot overflow.
pub const PRIORITY_MAX: i32 = 1_000_000;

/// Shortest ttl: below a second the network decides, not the worker.
pub const TTL_MIN: Duration = Duration::from_secs(1);

/// Longest ttl: a status that is valid for longer should be pushed without one.
pub const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long an answer is stored for its request id, without outages.
pub const REQUEST_TTL: Duration = Duration::from_secs(10 * 60);

/// How long a removed unit stays removed for reports without an incarnation: longer than a call of
/// a process that was ending with its unit.
pub const REMOVED_FOR: Duration = Duration::from_secs(10);

/// How long an application without units is kept, unless configured: a month, so that a deployment
/// that runs each fortnight, or is scaled to nothing over the holidays, keeps its history.
pub const ABANDONED_AFTER_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Silence after the last ttl before a unit is lost, unless configured: two missed minutes, as for
/// Juju's agents.
pub const LOST_AFTER_DEFAULT: Duration = Duration::from_secs(120);

/// Time for which a stateless unit stays lost before its successors end it, unless configured: a
/// node that comes back after a restart has its pods again by then.
pub const REPLACED_AFTER_DEFAULT: Duration = Duration::from_secs(600);

/// Callbacks of one unit that the server plans: one for each target that it retries. As many others
/// may be requested by the worker; neither kind takes the place of the other.
pub const CALLBACKS_PER_UNIT_MAX: usize = 1024;

/// Time until a requested callback is due. Below a second, a worker waits by itself; a week covers
/// the renewal of certificates.
pub const CALLBACK_AFTER: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);

/// Interval between pulls of connected units, unless configured: the same as Juju's update-status.
pub const COLLECT_INTERVAL_DEFAULT: Duration = Duration::from_secs(300);

/// Shortest such interval.
pub const COLLECT_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Results in a row that a latch may wait for: one would have no effect, and a hundred is more than
/// a person waits for.
pub const GOOD_COUNT: std::ops::RangeInclusive<u32> = 2..=100;

/// Units that a quorum may need: more than an application has by default, so that the limit of
/// units is the only one that counts.
pub const QUORUM_UNITS_MAX: u32 = 1_000_000;

/// Latches of an application, and damped components: every report searches both lists.
pub const DAMPENERS_MAX: usize = 64;

/// Shortest time without a swing after which a flapping status is calm.
pub const CALM_AFTER_MIN: Duration = Duration::from_secs(1);

/// Longest time without a swing after which a flapping status is calm.
pub const CALM_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Default time without a swing: as long as Icinga waits between two checks.
pub const CALM_AFTER_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// Time since the first attempt after which a fault shows waiting, unless configured: about as long
/// as a pod takes to restart.
pub const FAULT_SOFT_AFTER: Duration = Duration::from_secs(30);

/// The longest delay that a peer can request: a longer one means that the peer is unavailable.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Bytes of the text for operators only: a stack trace with its causes.
pub const INTERNAL_DETAIL_BYTES_MAX: usize = 65_536;

/// Lease of a leader, unless configured: as in Kubernetes.
pub const LEASE_DURATION_DEFAULT: Duration = Duration::from_secs(15);

/// Shortest lease of a leader: one lost packet does not unseat it.
pub const LEASE_DURATION_MIN: Duration = Duration::from_secs(2);

/// Longest lease of a leader.
pub const LEASE_DURATION_MAX: Duration = Duration::from_secs(5 * 60);

/// Bytes of a key of an application's data.
pub const DATA_KEY_BYTES_MAX: usize = 256;

/// Bytes of one value: settings and references, not files.
pub const DATA_VALUE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of all keys and values of one application: a reader gets them in one message, and clients
/// accept 4 MiB.
pub const DATA_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Keys of one application's data: a key for each event is detected early.
pub const DATA_KEYS_MAX: usize = 10_000;

/// Records that time alone changes in one commit: 100,000 due records are ten commits, not one of
/// many seconds.
pub const EXPIRED_PER_COMMIT_MAX: usize = 10_000;

/// Units that get a fence when their application is deleted: as many records as any other commit
/// may have.
pub const FENCES_PER_DELETION_MAX: usize = EXPIRED_PER_COMMIT_MAX;

/// Bytes of a payload stored here: a manifest fits, an image belongs behind a URI.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 10;

/// Bytes of a checkpoint: the point to continue at, not the work done. It is written at each
/// heartbeat.
pub const CHECKPOINT_BYTES_MAX: usize = 64 << 10;

/// Bytes of the progress text of an operation, and of a version: both must fit on one line.
pub const PROGRESS_BYTES_MAX: usize = 256;

/// Bytes of a URI: the maximum of proxies and browsers.
pub const URI_BYTES_MAX: usize = 2048;

/// Transitions that an operation stores; the oldest are dropped first.
pub const OPERATION_EVENTS_MAX: usize = 64;

/// Finished operations that an application stores; the oldest and the expired ones are dropped
/// first.
pub const OPERATIONS_FINISHED_MAX: usize = 32;

/// Finished operations of units that an application stores, all units together: one of each unit of
/// a large application.
pub const UNIT_OPERATIONS_FINISHED_MAX: usize = 1024;

/// Unfinished operations of units that an application may have: each command on an operation looks
/// at all of them.
pub const UNIT_OPERATIONS_OPEN_MAX: usize = 1024;

/// Age at which a finished operation is removed, when another one begins: a month of upgrades.
pub const OPERATION_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Lease of an operation, unless given: a crash shows within half a minute, and a worker that
/// renews at a third of it may miss two renewals.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// Shortest lease of an operation.
pub const LEASE_MIN: Duration = Duration::from_secs(1);

/// Longest lease of an operation.
pub const LEASE_MAX: Duration = Duration::from_secs(3600);

/// Failures after which an operation fails, unless given: as Argo CD retries.
pub const ATTEMPTS_DEFAULT: u32 = 5;

/// Interruptions that an operation tolerates, unless given: nodes are drained more often than
/// upgrades fail.
pub const INTERRUPTIONS_DEFAULT: u32 = 10;

/// Highest permitted number of failures and interruptions: a higher one is no limit.
pub const ATTEMPTS_MAX: u32 = 1000;

/// How long an operation may wait for a worker before the application shows it.
pub const OPERATION_UNCLAIMED_MAX: Duration = Duration::from_secs(15 * 60);

/// Largest number of entries on a page.
pub const PAGE_SIZE_MAX: usize = 1000;

/// Number of entries on a page if the client does not give one.
pub const PAGE_SIZE_DEFAULT: usize = 100;

/// Limits that an operator may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Units of one application.
    pub units_max: usize,
    /// Statuses of one unit, so that one unit cannot use up the space of the others.
    pub statuses_per_unit_max: usize,
    /// Keys of one component, so that a key for each event is detected early.
    pub keys_per_component_max: usize,
    /// Request ids stored for one application; the oldest are dropped first.
    pub request_ids_max: usize,
    /// Request ids stored for one unit of it, so that one unit cannot evict those of the others;
    /// the oldest are dropped first.
    pub request_ids_per_unit_max: usize,
    /// Open faults of one application.
    pub faults_max: usize,
    /// Open faults of one unit, so that a target for each request is detected early.
    pub faults_per_unit_max: usize,
    /// Events about units and their statuses that the store keeps for one application; the oldest
    /// are dropped first.
    pub events_max: u64,
    /// The same for the application's own events: its status, configuration, leaders, operations.
    pub own_events_max: u64,
    /// Usage of all applications together. Commits in progress at other applications are not
    /// counted, so the total can exceed the limit by that much. At the limit, commands that add are
    /// rejected; commands that replace, clear, remove or delete are accepted.
    pub total: Usage,
    /// Usage of the applications of one namespace together: units, statuses and bytes of data. The
    /// rest has no limit of its own.
    pub namespace: Usage,
    /// How long an application without units, statuses, data and open operations is kept; `None`:
    /// until it is deleted by a request.
    pub abandoned_after: Option<Duration>,
    /// Thresholds and times of faults.
    pub faults: FaultSettings,
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
            own_events_max: 1000,
            total: TOTAL,
            namespace: TOTAL,
            abandoned_after: Some(ABANDONED_AFTER_DEFAULT),
            faults: FaultSettings::default(),
        }
    }
}

/// Default limits on all applications together: what a server of 8 GiB serves, and a disk of 64 GiB
/// holds, when a single client fills all of it.
pub const TOTAL: Usage = Usage {
    units: 500_000,
    statuses: 2_000_000,
    faults: 100_000,
    operations: 1_000_000,
    marks: MARKS_TOTAL_MAX,
    data_bytes: 1 << 30,
    record_bytes: 2 << 30,
    history_bytes: 16 << 30,
};

/// Thresholds and times of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSettings {
    /// Attempts in a row after which a fault shows waiting.
    pub soft_count: u32,
    /// The same threshold as time since the first attempt.
    pub soft_after: Duration,
    /// Attempts in a row after which a fault shows error; also the budget of attempts.
    pub hard_count: u32,
    /// The same threshold as time since the first attempt.
    pub hard_after: Duration,
    /// The first wait; each next one is twice as long.
    pub retry_base: Duration,
    /// The first wait after a throttled call.
    pub throttled_base: Duration,
    /// The longest own wait, and the pace once the budget is used up.
    pub retry_max: Duration,
    /// The wait for a missing dependency.
    pub defer_interval: Duration,
    /// Retries of one application that may fall into the same second.
    pub retries_per_second_max: u32,
    /// Successes among the errors of one target, within `hard_after`, after which its next error
    /// shows waiting; 0: never. At most [`INTERMITTENT_COUNT_MAX`] count.
    pub intermittent_count: u32,
}

/// The most successes that [`FaultSettings::intermittent_count`] can require.
pub const INTERMITTENT_COUNT_MAX: u32 = 16;

impl Default for FaultSettings {
    fn default() -> FaultSettings {
        FaultSettings {
            // One failure may be chance.
            soft_count: 3,
            soft_after: FAULT_SOFT_AFTER,
            // As long as people accept to wait before a hard failure.
            hard_count: 10,
            hard_after: Duration::from_secs(600),
            // As Omicron, and so is the longest wait.
            retry_base: Duration::from_millis(250),
            // Four times as long, as AWS.
            throttled_base: Duration::from_secs(1),
            retry_max: Duration::from_secs(180),
            // About as long as pods take to start.
            defer_interval: Duration::from_secs(30),
            // A returning target must not be overloaded by all that waited for it.
            retries_per_second_max: 100,
            // The fourth error in ten minutes is no chance either.
            intermittent_count: 3,
        }
    }
}

/// The command would exceed a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} would be more than {max}; remove some first, {}", or_raise(limit))]
pub struct LimitExceeded {
    /// Name of the limit.
    pub limit: &'static str,
    /// The items that would be too many.
    pub what: String,
    /// The limit.
    pub max: usize,
}

/// The limits that are constants; the others are settings of the server.
const CONSTANT: [&str; 6] = [
    "callbacks_per_unit_max",
    "damped_components_max",
    "data_keys_max",
    "latches_max",
    "own_statuses_max",
    "unit_operations_open_max",
];

fn or_raise(limit: &str) -> String {
    match CONSTANT.contains(&limit) {
        true => format!("because the limit {limit} is fixed"),
        false => format!("or raise the limit {limit}"),
    }
}

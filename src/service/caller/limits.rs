//! Limits on what one caller uses, a principal or an address without one.

/// A limit that holds for callers on this machine only if an operator has set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The limit.
    pub max: usize,
    /// Whether it holds for callers on this machine that are no principal.
    pub is_for_local: bool,
}

/// Limits on one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one principal. A connection counts for the principal of its newest call.
    pub connections_max: usize,
    /// Unary calls at the same time.
    pub calls_max: Bound,
    /// Calls that write, and messages of sessions that do, in a second.
    pub reports_per_second: Bound,
    /// Calls that read, in a second.
    pub reads_per_second: Bound,
    /// Watches and sessions that are opened, in a second.
    pub watches_per_second: Bound,
    /// Renewals of leases, and health checks, in a second.
    pub heartbeats_per_second: Bound,
}

impl Default for Limits {
    /// Returns the defaults: about what a server on two cores serves in total, so that no ordinary
    /// caller reaches them. A caller that does is one that repeats without a pause.
    fn default() -> Limits {
        let bound = |max| Bound { max, is_for_local: false };
        Limits {
            connections_max: 2500,
            calls_max: bound(4096),
            reports_per_second: bound(20_000),
            reads_per_second: bound(20_000),
            watches_per_second: bound(5000),
            heartbeats_per_second: bound(50_000),
        }
    }
}

/// Kinds of calls, each with its own rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Writes.
    Report,
    /// Reads.
    Read,
    /// Opens a watch or a session.
    Watch,
    /// Keeps a lease or a pod alive: refused last. Sessions send heartbeats as messages, which are
    /// not counted.
    Heartbeat,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 4] = [Class::Report, Class::Read, Class::Watch, Class::Heartbeat];

    /// Returns the limit of the rate.
    pub fn bound(self, limits: &Limits) -> Bound {
        match self {
            Class::Report => limits.reports_per_second,
            Class::Read => limits.reads_per_second,
            Class::Watch => limits.watches_per_second,
            Class::Heartbeat => limits.heartbeats_per_second,
        }
    }

    /// Returns the name of the limit, and that of the calls.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Class::Report => ("reports_per_second_per_principal_max", "reports and other changes"),
            Class::Read => ("reads_per_second_per_principal_max", "reads"),
            Class::Watch => ("watches_per_second_per_principal_max", "new watches and sessions"),
            Class::Heartbeat => {
                ("heartbeats_per_second_per_principal_max", "renewals and health checks")
            }
        }
    }
}

/// Limits of watches.
#[derive(Debug, Clone, Copy)]
pub struct WatchLimits {
    /// Streams at the same time, each with one watch or with many.
    pub streams_max: usize,
    /// Streams of one peer at the same time.
    pub streams_per_peer_max: usize,
    /// Streams of one principal at the same time.
    pub streams_per_principal_max: usize,
    /// Health watches at the same time, apart from other watches.
    pub health_streams_max: usize,
}

/// The maximum of watches and of sessions of one peer is the total divided by this number. It is
/// larger than that of connections, because watches and sessions often come through few proxies.
pub const STREAM_SHARE: usize = 4;

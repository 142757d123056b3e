//! How patient a link is.

use std::time::Duration;

/// What can be chosen.
#[derive(Debug, Clone)]
pub struct Options {
    /// For a connection to be made, with TLS and greeting.
    pub connect_timeout: Duration,
    /// For the whole answer to a pipeline.
    pub response_timeout: Duration,
    /// Between two questions whether the master is there and still is one; for Sentinel also
    /// between two questions who it is.
    pub ping_interval: Duration,
    /// Questions in a row that may time out before the connection is given up.
    pub timeouts_max: u32,
    /// How long a pipeline waits for a link that has just been lost. A link that has been away for
    /// longer is not waited for.
    pub wait_for_link: Duration,
    /// For the first connection.
    pub start_deadline: Duration,
    /// The pause before the second attempt; it doubles from attempt to attempt.
    pub backoff_first: Duration,
    /// The longest pause between two attempts.
    pub backoff_max: Duration,
    /// Between two looks at who has which slots of a cluster.
    pub refresh_interval: Duration,
}

impl Default for Options {
    /// One second for an answer: a healthy Redis takes a millisecond, and one that forks or syncs
    /// stalls for some hundred. A frozen peer is found within `ping_interval` and twice
    /// `response_timeout`: three seconds. Ten seconds at start: a pod may come up before the
    /// network does. Two seconds between attempts: a failover takes as long, and a hundred replicas
    /// connecting every two seconds are nothing to Redis.
    fn default() -> Options {
        Options {
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(1),
            ping_interval: Duration::from_secs(1),
            timeouts_max: 2,
            wait_for_link: Duration::from_millis(100),
            start_deadline: Duration::from_secs(10),
            backoff_first: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            refresh_interval: Duration::from_secs(10),
        }
    }
}

//! The time-outs of a link.

use std::time::Duration;

/// The settings of a link.
#[derive(Debug, Clone)]
pub struct Options {
    /// The time to make a connection, with TLS and handshake.
    pub connect_timeout: Duration,
    /// The time for the whole answer to a pipeline.
    pub response_timeout: Duration,
    /// The interval between checks that the master answers and is still a master. With Sentinel,
    /// also the interval between questions for the master.
    pub ping_interval: Duration,
    /// The number of checks in a row that may time out before the connection is given up.
    pub timeouts_max: u32,
    /// The time that a pipeline waits for a link that has just been lost. A pipeline does not wait
    /// for a link that has been away for longer.
    pub wait_for_link: Duration,
    /// The time for the first connection.
    pub start_deadline: Duration,
    /// The pause before the second attempt; it doubles with each attempt.
    pub backoff_first: Duration,
    /// The longest pause between two attempts.
    pub backoff_max: Duration,
    /// The interval between looks at the slots of a cluster.
    pub refresh_interval: Duration,
}

impl Default for Options {
    /// One second for an answer: a healthy Redis takes a millisecond, and one that forks or syncs
    /// stalls for a few hundred. A frozen peer is detected within `ping_interval` and twice
    /// `response_timeout`: three seconds. Ten seconds at start: a pod may start before the network
    /// does. Two seconds between attempts: a failover takes as long, and a hundred replicas that
    /// connect every two seconds are no load for Redis.
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

//! How well connections to it do.

use std::time::Duration;

use crate::store::doctor::Finding;
use crate::store::redis::doctor::facts::{Facts, Server};

use super::{bytes, percent};

/// Each commit takes a round trip at least.
const MEDIAN_MAX: Duration = Duration::from_millis(10);
/// Half of what our links wait for an answer.
const LONGEST_MAX: Duration = Duration::from_millis(500);
const CLIENTS_PERCENT: u64 = 90;
/// A connection on which commits wait for replicas is idle while nobody reports; the others are
/// used every second.
const TIMEOUT_MIN: u64 = 30;
/// The answer to the first question about a bucket: all heads in it.
const OUTPUT_MIN: u64 = 64 << 20;

pub(super) fn latency(_: &Facts, server: &Server) -> Option<Finding> {
    let (median, longest) = (*server.pings.get(server.pings.len() / 2)?, *server.pings.last()?);
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    let found = format!("median {}, longest {}", millis(median), millis(longest));
    Some(match (MEDIAN_MAX < median, LONGEST_MAX < longest) {
        (true, _) => {
            let why = "each commit takes a round trip at least, and those of one application \
                       follow each other";
            Finding::warning("latency", found, why)
                .advise("run Bellwether near its Redis; look at SLOWLOG and LATENCY DOCTOR")
        }
        (false, true) => {
            let why = "an answer that takes a second is given up, and the connection is doubted";
            Finding::warning("latency", found, why).advise("look at SLOWLOG and LATENCY DOCTOR")
        }
        (false, false) => Finding::ok("latency", found),
    })
}

/// A difference to the clock of this machine is harmless: only the time of the store decides.
pub(super) fn clock(_: &Facts, server: &Server) -> Option<Finding> {
    let clock = server.clock?;
    let (ahead, error) = (clock.ahead_ms, clock.error.as_secs_f64() * 1000.0);
    let error = format!("give or take {error:.1} ms");
    let found = match ahead {
        0 => format!("that of Redis is as ours, {error}"),
        1.. => {
            format!("that of Redis is {ahead} ms ahead of ours, {error}; it is the one that counts")
        }
        _ => format!(
            "that of Redis is {} ms behind ours, {error}; it is the one that counts",
            -ahead
        ),
    };
    if clock.behind.is_zero() {
        return Some(Finding::ok("clock", found));
    }
    let found = format!("that of Redis was {:?} behind the time of the store", clock.behind);
    let why = "times shown are ahead of the clock by as much, and approach it by a tenth of the \
               time that passes";
    let advice = "set the clocks of all Redis servers, also of the replicas, by NTP";
    Some(Finding::warning("clock", found, why).advise(advice))
}

pub(super) fn clients(_: &Facts, server: &Server) -> Option<Finding> {
    let max = server.info.number("maxclients").filter(|max| *max != 0)?;
    let used = server.info.number("connected_clients")?;
    let found = format!("{used} of maxclients {max}");
    Some(match percent(used, max) {
        CLIENTS_PERCENT.. => {
            let why = "at maxclients Redis takes no connection, so no replica of ours can start";
            Finding::warning("clients", found, why)
                .advise("close what is left open, or raise it together with its open files limit")
                .command(format!("CONFIG SET maxclients {}", max.saturating_mul(2)))
        }
        _ => Finding::ok("clients", found),
    })
}

pub(super) fn idle_timeout(_: &Facts, server: &Server) -> Option<Finding> {
    let seconds = server.config.number("timeout")?;
    let found = format!("timeout {seconds}");
    Some(match seconds {
        1..TIMEOUT_MIN => {
            let why = "Redis closes connections that wait for the next report; the first one after \
                       that takes longer";
            Finding::warning("idle-timeout", found, why).command("CONFIG SET timeout 0")
        }
        _ => Finding::ok("idle-timeout", found),
    })
}

pub(super) fn output_buffer(_: &Facts, server: &Server) -> Option<Finding> {
    // normal HARD SOFT SECONDS slave HARD SOFT SECONDS pubsub ...
    let mut words = server.config.get("client-output-buffer-limit")?.split(' ');
    words.find(|word| *word == "normal")?;
    let hard: u64 = words.next()?.parse().ok()?;
    Some(match hard {
        0 => Finding::ok("output-buffer", "no limit for normal clients"),
        1..OUTPUT_MIN => {
            let found = format!("normal clients are cut off at {}", bytes(hard));
            let why = "the heads of a bucket are read in one answer at start; if that is cut off, \
                       it is asked again, and cut off again";
            Finding::warning("output-buffer", found, why)
                .command("CONFIG SET client-output-buffer-limit \"normal 0 0 0\"")
        }
        _ => Finding::ok("output-buffer", format!("normal clients up to {}", bytes(hard))),
    })
}

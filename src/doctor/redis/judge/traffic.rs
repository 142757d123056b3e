//! Judges how well connections work.

use std::time::Duration;

use crate::doctor::Finding;
use crate::doctor::redis::facts::{Facts, Server};

use super::{bytes, percent};

/// Each commit takes at least one round trip.
const MEDIAN_MAX: Duration = Duration::from_millis(10);
/// Half of the time that a link waits for an answer.
const LONGEST_MAX: Duration = Duration::from_millis(500);
const CLIENTS_PERCENT: u64 = 90;
/// The minimum idle timeout. A connection on which commits wait for replicas is idle while there
/// are no reports; the others are used every second.
const TIMEOUT_MIN: u64 = 30;
/// The minimum output buffer: the first answer about a bucket contains all its heads.
const OUTPUT_MIN: u64 = 64 << 20;

pub(super) fn latency(_: &Facts, server: &Server) -> Option<Finding> {
    let (median, longest) = (*server.pings.get(server.pings.len() / 2)?, *server.pings.last()?);
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    let found = format!("median {}, longest {}", millis(median), millis(longest));
    Some(match (MEDIAN_MAX < median, LONGEST_MAX < longest) {
        (true, _) => {
            let why = "each commit takes at least one round trip, and those of one application \
                       follow each other";
            Finding::warning("latency", found, why)
                .advise("run Bellwether near its Redis; look at SLOWLOG and LATENCY DOCTOR")
        }
        (false, true) => {
            let why = "an answer that takes a second is given up, and the connection is checked";
            Finding::warning("latency", found, why).advise("look at SLOWLOG and LATENCY DOCTOR")
        }
        (false, false) => Finding::ok("latency", found),
    })
}

/// A difference to the local clock is harmless: only the time of the store counts.
pub(super) fn clock(_: &Facts, server: &Server) -> Option<Finding> {
    let clock = server.clock?;
    let (ahead, error) = (clock.ahead_ms, clock.error.as_secs_f64() * 1000.0);
    let error = format!("give or take {error:.1} ms");
    let found = match ahead {
        0 => format!("Redis and this machine agree, {error}"),
        1.. => {
            format!("Redis is {ahead} ms ahead of this machine, {error}; only its clock counts")
        }
        _ => format!("Redis is {} ms behind this machine, {error}; only its clock counts", -ahead),
    };
    let (found, why) = match (clock.behind, clock.ahead) {
        (Duration::ZERO, Duration::ZERO) => return Some(Finding::ok("clock", found)),
        (Duration::ZERO, ahead) => (
            format!("Redis was {ahead:?} ahead of the time of the store"),
            "times shown are behind the clock by this much, less a hundredth of the time that \
             passes; no deadline passes early",
        ),
        (behind, _) => (
            format!("Redis was {behind:?} behind the time of the store"),
            "times shown are ahead of the clock by this much, less a tenth of the time that passes",
        ),
    };
    let advice = "set the clocks of all Redis servers, replicas included, with NTP";
    Some(Finding::warning("clock", found, why).advise(advice))
}

pub(super) fn clients(_: &Facts, server: &Server) -> Option<Finding> {
    let max = server.info.number("maxclients").filter(|max| *max != 0)?;
    let used = server.info.number("connected_clients")?;
    let found = format!("{used} of maxclients {max}");
    Some(match percent(used, max) {
        CLIENTS_PERCENT.. => {
            let why = "at maxclients Redis refuses connections, so no server can start";
            Finding::warning("clients", found, why)
                .advise("close unused connections, or raise it with the limit of open files")
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
            let why = "Redis closes connections that are idle between reports; the next report \
                       takes longer";
            Finding::warning("idle-timeout", found, why).command("CONFIG SET timeout 0")
        }
        _ => Finding::ok("idle-timeout", found),
    })
}

pub(super) fn output_buffer(_: &Facts, server: &Server) -> Option<Finding> {
    // The value is: normal HARD SOFT SECONDS slave HARD SOFT SECONDS pubsub ...
    let mut words = server.config.get("client-output-buffer-limit")?.split(' ');
    words.find(|word| *word == "normal")?;
    let hard: u64 = words.next()?.parse().ok()?;
    Some(match hard {
        0 => Finding::ok("output-buffer", "no limit for normal clients"),
        1..OUTPUT_MIN => {
            let found = format!("normal clients are cut off at {}", bytes(hard));
            let why = "a server reads the heads of a bucket in one answer at start; if that is \
                       cut off, so is each new attempt";
            Finding::warning("output-buffer", found, why)
                .command("CONFIG SET client-output-buffer-limit \"normal 0 0 0\"")
        }
        _ => Finding::ok("output-buffer", format!("normal clients up to {}", bytes(hard))),
    })
}

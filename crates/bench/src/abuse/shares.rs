//! One address that takes what all addresses share.

use super::attack::{Attack, Content, Means, PLAIN, Port, STRICT, Target, hold};

/// Requests of one connection of the ops port: each drip of this number is a whole one.
const DRIPS_EACH: u64 = 12;

/// The attacks.
pub const ATTACKS: [Attack; 2] = [
    Attack {
        target: Target { port: Port::Ops, addresses: 1, ..PLAIN },
        bounds: STRICT,
        ..hold(
            "slow-probes",
            "connections",
            520,
            || (probe(), 1),
            |tick| {
                if tick % DRIPS_EACH == DRIPS_EACH - 1 { probe() } else { Vec::new() }
            },
        )
    },
    Attack {
        name: "silent-connections",
        unit: "connections",
        means: Means::Silent { connections: 4096 },
        target: Target { with_tls: true, addresses: 1, content: Content::Nothing, ..PLAIN },
        bounds: STRICT,
    },
];

/// A whole request, which the server answers.
fn probe() -> Vec<u8> {
    b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_vec()
}

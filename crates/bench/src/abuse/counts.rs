//! What an attack has sent.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// What an attack has sent so far.
#[derive(Debug, Default)]
pub struct Counts {
    connections: AtomicU64,
    ended: AtomicU64,
    bytes: AtomicU64,
    units: AtomicU64,
}

/// What an attack has sent.
#[derive(Debug, Clone, Serialize)]
pub struct Sent {
    /// Connections that were opened.
    pub connections: u64,
    /// Connections that the server ended.
    pub ended: u64,
    /// Bytes.
    pub bytes: u64,
    /// Streams, frames or calls.
    pub units: u64,
}

impl Counts {
    /// Returns the counts so far.
    pub fn sent(&self) -> Sent {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Sent {
            connections: read(&self.connections),
            ended: read(&self.ended),
            bytes: read(&self.bytes),
            units: read(&self.units),
        }
    }

    /// Counts a connection.
    pub fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts connections that the server ended.
    pub fn ended(&self, more: u64) {
        self.ended.fetch_add(more, Ordering::Relaxed);
    }

    /// Counts what was sent.
    pub fn add(&self, bytes: usize, units: u64) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.units.fetch_add(units, Ordering::Relaxed);
    }
}

//! The signals that ask `run` to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub struct StopSignals {
    streams: [Signal; 3],
    /// Whether one has come.
    pub is_stopped: bool,
}

impl StopSignals {
    /// Takes the signals from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new() -> io::Result<StopSignals> {
        let streams = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ];
        Ok(StopSignals { streams, is_stopped: false })
    }

    /// Waits for one. Cancel safe.
    pub async fn asked(&mut self) {
        let [term, interrupt, hangup] = &mut self.streams;
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        self.is_stopped = true;
    }
}

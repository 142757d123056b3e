//! A `bellwether run` in the background, and waits for what it does.

use std::process::{Child, Command};
use std::time::Instant;

use crate::server::{DEADLINE, LOOK_EVERY};

/// A running `run`, which is killed with the test.
pub struct Runner(pub Child);

impl Runner {
    /// Sends a signal: `TERM`.
    pub fn signal(&self, name: &str) {
        signal(self.0.id(), name);
    }

    /// Waits for its end, and returns its exit code.
    pub fn end(mut self) -> Option<i32> {
        let mut code = None;
        holds("its end", || {
            code = self.0.try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|code| code.code())
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a process.
pub fn signal(process: u32, name: &str) {
    let process = process.to_string();
    let sent = Command::new("kill").args([&format!("-{name}"), &process]).status().unwrap();
    assert!(sent.success());
}

/// Waits until a condition holds.
pub fn holds(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < DEADLINE, "{what} does not come");
        std::thread::sleep(LOOK_EVERY);
    }
}

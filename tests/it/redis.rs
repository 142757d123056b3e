//! A real `redis-server` or `valkey-server` of the test's own, on a free port, ended when dropped.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::server::{DEADLINE, LOOK_EVERY};

/// A running Redis.
pub struct Redis {
    program: PathBuf,
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
    arguments: Vec<String>,
    /// The library that shifts its clock, if it does.
    library: Option<PathBuf>,
}

impl Redis {
    /// Starts a server. Prints a warning and returns `None` if there is no redis-server; in CI that
    /// is a failure.
    pub fn start(arguments: &[&str]) -> Option<Redis> {
        Redis::start_program("redis-server", arguments, None)
    }

    /// Starts a server whose clock is set by [`set_clock`](Redis::set_clock).
    pub fn start_with_clock(library: &Path, arguments: &[&str]) -> Option<Redis> {
        Redis::start_program("redis-server", arguments, Some(library))
    }

    /// Sets the clock of the server ahead of that of this machine.
    pub fn set_clock(&self, ahead_seconds: u32) {
        std::fs::write(clock_file(self.directory.path()), format!("+{ahead_seconds}")).unwrap();
    }

    /// Starts Valkey instead of Redis.
    pub fn start_valkey(arguments: &[&str]) -> Option<Redis> {
        Redis::start_program("valkey-server", arguments, None)
    }

    fn start_program(name: &str, arguments: &[&str], library: Option<&Path>) -> Option<Redis> {
        // The tools of this repository come before those of the machine.
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/bin").join(name);
        let program = if own.is_file() { own } else { PathBuf::from(name) };
        let found = Command::new(&program).arg("--version").output().is_ok();
        assert!(
            found || std::env::var_os("CI").is_none(),
            "{name} is missing, and in CI nothing is skipped"
        );
        if !found {
            eprintln!("SKIPPED: {name} is missing; run tools/install");
            return None;
        }
        let start = Instant::now();
        loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let directory = tempfile::tempdir().unwrap();
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            std::fs::write(clock_file(directory.path()), "+0").unwrap();
            let library = library.map(Path::to_path_buf);
            let child = spawn(&program, port, directory.path(), &arguments, library.as_deref());
            let program = program.clone();
            let mut redis = Redis { program, child, port, directory, arguments, library };
            if redis.answers() {
                return Some(redis);
            }
            // Another process took the port meanwhile.
            assert!(start.elapsed() < DEADLINE, "{name} does not start");
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends `kill -9`: without persistence all data are lost.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the server again at the same address.
    pub fn restart(&mut self) {
        let start = Instant::now();
        loop {
            let directory = self.directory.path();
            let library = self.library.as_deref();
            self.child = spawn(&self.program, self.port, directory, &self.arguments, library);
            if self.answers() {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "redis-server does not start again");
        }
    }

    /// Sends a signal: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Returns the output of `redis-cli`.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let port = self.port.to_string();
        let mut command = Command::new("redis-cli");
        let output = command.args(["-p", &port]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }

    /// Returns true once the server answers; false if it has ended.
    fn answers(&mut self) -> bool {
        let start = Instant::now();
        loop {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() && self.cli(&["ping"]) == "PONG"
            {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(start.elapsed() < DEADLINE, "redis-server does not answer");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the file with the offset of the clock.
fn clock_file(directory: &Path) -> PathBuf {
    directory.join("clock")
}

fn spawn(
    program: &Path,
    port: u16,
    directory: &Path,
    arguments: &[String],
    library: Option<&Path>,
) -> Child {
    let mut command = Command::new(program);
    if let Some(library) = library {
        // With jemalloc the library calls itself without end: the functions of libc come first.
        let libc = library.ancestors().nth(2).unwrap().join("libc.so.6");
        command.env("LD_PRELOAD", format!("{}:{}", library.display(), libc.display()));
        command.env("FAKETIME_TIMESTAMP_FILE", clock_file(directory));
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .arg("--dir")
        .arg(directory)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

//! The history of a run: each operation with its call, its return and its answer, as JSON lines for
//! `tools/linearizability`.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::interop;

/// The program that judges a history.
pub const CHECKER: &str = "linearizability-check";

/// What a client asks.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Operation {
    pub application: String,
    /// The name as the checker has it.
    pub operation: &'static str,
    pub unit: String,
    /// The lease epoch of the caller; 0 for operations without one.
    pub epoch: u64,
    /// The data version at which alone a write may succeed.
    pub expected: Option<u64>,
    pub value: String,
}

/// What a client was answered. Fields without a meaning for the operation have their default.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Outcome {
    pub kind: &'static str,
    pub epoch: u64,
    pub holder: String,
    pub version: u64,
    pub value: String,
    pub revision: u64,
    pub changed: bool,
}

#[derive(Serialize)]
struct Line {
    client: u32,
    #[serde(flatten)]
    operation: Operation,
    /// Nanoseconds since the start of the run.
    call: u64,
    r#return: Option<u64>,
    /// Absent if the outcome is unknown.
    result: Option<Outcome>,
}

/// The operations of a run so far.
pub struct Recorder {
    start: Instant,
    lines: Mutex<Vec<Line>>,
    recorded: AtomicUsize,
    clients: AtomicU32,
    ends: AtomicBool,
}

impl Recorder {
    pub fn new() -> Recorder {
        Recorder {
            start: Instant::now(),
            lines: Mutex::default(),
            recorded: AtomicUsize::new(0),
            clients: AtomicU32::new(0),
            ends: AtomicBool::new(false),
        }
    }

    /// Returns the number of a client. A client that leaves an operation open needs another one.
    pub fn client(&self) -> u32 {
        self.clients.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns nanoseconds since the start of the run.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    /// Adds an operation that returns now, or never if its outcome is unknown.
    pub fn add(&self, client: u32, operation: Operation, call: u64, result: Option<Outcome>) {
        let r#return = result.as_ref().map(|_| self.now());
        self.lines.lock().unwrap().push(Line { client, operation, call, r#return, result });
        self.recorded.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of operations.
    pub fn recorded(&self) -> usize {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Tells the clients to end.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    pub fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    /// Writes the history into a file.
    pub fn write(&self, path: &Path) {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
        for line in &*self.lines.lock().unwrap() {
            serde_json::to_writer(&mut file, line).unwrap();
            file.write_all(b"\n").unwrap();
        }
        file.flush().unwrap();
    }

    /// Returns how often each operation had each answer.
    pub fn summary(&self) -> String {
        let mut counts = std::collections::BTreeMap::new();
        for line in &*self.lines.lock().unwrap() {
            let answer = line.result.as_ref().map_or("unknown", |result| result.kind);
            *counts.entry(format!("{} {answer}", line.operation.operation)).or_insert(0) += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
        counts.join(", ")
    }
}

/// The judgement of the checker.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Linearizable,
    Refused,
}

/// Lets the checker judge a history, and prints what it says.
pub fn judge(path: &Path) -> Verdict {
    let output = Command::new(CHECKER)
        .arg("-visualize")
        .arg(path.parent().unwrap())
        .arg(path)
        .env("PATH", interop::path())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said).trim_end());
    match output.status.code() {
        Some(0) => Verdict::Linearizable,
        Some(1) => Verdict::Refused,
        _ => panic!("{}: no verdict", output.status),
    }
}

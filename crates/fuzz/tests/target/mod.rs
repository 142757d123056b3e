//! What reads bytes: each target takes any bytes and panics if it finds a fault.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bellwether::config::{Config, Flags, rules};
use bellwether::service;
use bellwether::store::probe;
use bellwether::watch::Token;
use bellwether_fuzz::choices::Choices;

#[path = "../../../../tests/it/raw_call.rs"]
#[allow(dead_code, reason = "the tests of the server use the rest")]
mod raw_call;
mod requests;
mod value;

/// One target.
pub struct Target {
    /// The name of its corpus and in reports.
    pub name: &'static str,
    /// Takes one input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target { name: "records", run: records },
    Target { name: "tokens", run: tokens },
    Target { name: "configuration", run: configuration },
    Target { name: "error_rules", run: error_rules },
    Target { name: "juju", run: juju },
    Target { name: "reports", run: reports },
    Target { name: "requests", run: requests::run },
];

/// Stored records: as they are, and behind a header that is right.
fn records(input: &[u8]) {
    let mut choices = Choices::new(input);
    let kind = choices.byte();
    let bytes = choices.rest();
    match kind < 128 {
        true => probe::record(kind, &probe::sealed(bytes)),
        false => probe::record(kind, bytes),
    }
}

/// Resume tokens as text, and as bytes with a check that is right. Page tokens are in `requests`.
fn tokens(input: &[u8]) {
    let _ = Token::decode(&String::from_utf8_lossy(input));
    let check = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let check = u32::try_from(check & u64::from(u32::MAX)).unwrap().to_be_bytes();
    let text = URL_SAFE_NO_PAD.encode([input, &check].concat());
    if let Ok(token) = Token::decode(&text) {
        assert_eq!(Token::decode(&token.encode()).ok(), Some(token), "{text}");
    }
}

/// The configuration file.
fn configuration(input: &[u8]) {
    in_file(input, |path| {
        let mut flags = Flags::default();
        flags.store.config = Some(path.to_path_buf());
        if let Err(error) = Config::load(flags) {
            assert!(!error.to_string().is_empty());
        }
    });
}

/// The file of error rules.
fn error_rules(input: &[u8]) {
    in_file(input, |path| {
        if let Err(error) = rules::read(path) {
            assert!(!error.to_string().is_empty());
        }
    });
}

/// A document of `import juju`.
fn juju(input: &[u8]) {
    let _ = bellwether::cli::import_juju(&String::from_utf8_lossy(input));
}

/// Messages of a worker's stream, which are decoded in two ways: the input as a message, as a
/// report, and as the status of a report.
fn reports(input: &[u8]) {
    let field = |tag: u8, bytes: &[u8]| {
        let (low, high) = (bytes.len() & 0x7f, bytes.len() >> 7);
        let length = [u8::try_from(low).unwrap() | 0x80, u8::try_from(high).unwrap()];
        [&[tag][..], &length, bytes].concat()
    };
    let report = |report: &[u8]| field(0x12, report);
    let statuses = field(0x12, input);
    for message in [input.to_vec(), report(input), report(&[&[8, 1][..], &statuses].concat())] {
        service::probe::both_ways(&message);
    }
}

/// Puts an input into the one file of this thread, which is in memory where it can be.
fn in_file(input: &[u8], read: impl FnOnce(&Path)) {
    thread_local! {
        static FILE: RefCell<tempfile::NamedTempFile> = RefCell::new({
            let memory = Path::new("/dev/shm");
            let file = tempfile::NamedTempFile::new_in(memory);
            file.or_else(|_| tempfile::NamedTempFile::new()).unwrap()
        });
    }
    FILE.with_borrow_mut(|file| {
        let path = file.path().to_path_buf();
        let mut out = std::fs::File::create(&path).unwrap();
        out.write_all(input).unwrap();
        read(&path);
    });
}

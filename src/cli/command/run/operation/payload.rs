//! What an operation records of its command, so that only the same work resumes it.
//!
//! A line of JSON, then the contents of the input files one after the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::cli::exit::UsageError;
use crate::cli::file;
use crate::domain::limits::PAYLOAD_BYTES_MAX;

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The program, without its folder.
    pub program: String,
    /// Of the command line.
    pub command_digest: String,
    /// The working directory.
    pub folder: PathBuf,
    /// The files that the command reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// The command line with what belongs to it, if it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<Stored>,
    /// The contents of the inputs.
    #[serde(skip)]
    pub contents: Vec<Vec<u8>>,
}

/// A file that the command reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its path, from the working directory.
    pub path: PathBuf,
    /// Of its content.
    pub digest: String,
    /// The length of its content.
    pub bytes: usize,
}

/// What `--resume` needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The command line.
    pub command: Vec<String>,
    /// Variables for its environment.
    pub variables: BTreeMap<String, String>,
    /// The recipe.
    pub recipe: Option<String>,
    /// The line that says how far it came.
    pub verify: Option<String>,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace: u64,
}

impl Payload {
    /// Returns the record of a command that runs in this directory.
    ///
    /// # Errors
    /// If an input cannot be read, or all of it is longer than an operation can have.
    pub fn new(
        command: &[String],
        inputs: &[PathBuf],
        stored: Option<Stored>,
    ) -> Result<Payload, UsageError> {
        let folder = std::env::current_dir()
            .map_err(|error| UsageError(format!("the working directory is gone: {error}")))?;
        let mut payload = Payload {
            program: program(command).to_string(),
            command_digest: digest_of(command.join("\0").as_bytes()),
            folder,
            inputs: Vec::new(),
            stored,
            contents: Vec::new(),
        };
        for path in inputs {
            let content = file::read(path)?;
            let (digest, bytes) = (digest_of(&content), content.len());
            payload.inputs.push(Input { path: path.clone(), digest, bytes });
            payload.contents.push(content);
        }
        let length = payload.encode().len();
        if PAYLOAD_BYTES_MAX < length {
            return Err(UsageError(format!(
                "the inputs and the command line take {length} bytes; an operation stores \
                 {PAYLOAD_BYTES_MAX}: leave large files out of --input"
            )));
        }
        Ok(payload)
    }

    /// Returns the bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        self.contents.iter().for_each(|content| bytes.extend_from_slice(content));
        bytes
    }

    /// Reads the bytes; `None` for the payload of another program.
    pub fn decode(bytes: &[u8]) -> Option<Payload> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let mut payload: Payload = serde_json::from_slice(&bytes[..end]).ok()?;
        let mut rest = &bytes[end + 1..];
        for input in &payload.inputs {
            let (content, after) = rest.split_at_checked(input.bytes)?;
            payload.contents.push(content.to_vec());
            rest = after;
        }
        Some(payload)
    }

    /// Returns what differs from the record of the operation, in words; `None` for the same work.
    pub fn difference(&self, recorded: &Payload) -> Option<String> {
        if self.program != recorded.program {
            return Some(format!("it runs {}, this is {}", recorded.program, self.program));
        }
        if self.command_digest != recorded.command_digest {
            return Some("its command line is another one".to_string());
        }
        if self.folder != recorded.folder {
            return Some(format!("it runs in {}", recorded.folder.display()));
        }
        let of = |payload: &Payload| -> BTreeMap<PathBuf, String> {
            payload.inputs.iter().map(|i| (i.path.clone(), i.digest.clone())).collect()
        };
        let (own, theirs) = (of(self), of(recorded));
        let path = own.keys().chain(theirs.keys()).find(|path| own.get(*path) != theirs.get(*path));
        path.map(|path| format!("its input {} is another one", path.display()))
    }

    /// Writes the inputs that are missing.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn restore(&self) -> std::io::Result<()> {
        for (input, content) in self.inputs.iter().zip(&self.contents) {
            let path = self.folder.join(&input.path);
            if !path.exists() {
                path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                std::fs::write(&path, content)?;
            }
        }
        Ok(())
    }
}

/// Returns the name of the program of a command.
pub fn program(command: &[String]) -> &str {
    let first = command.first().map(String::as_str).unwrap_or_default();
    Path::new(first).file_name().and_then(|name| name.to_str()).unwrap_or(first)
}

/// Returns the digest of bytes, as operations have it.
pub fn digest_of(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in digest(&SHA256, bytes).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_string).collect()
    }

    fn stored() -> Stored {
        Stored {
            command: words("helm upgrade web"),
            variables: BTreeMap::from([("A".to_string(), "b".to_string())]),
            recipe: Some("helm".to_string()),
            verify: None,
            grace: 4_000,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&one, b"line\nline\xff").unwrap();
        std::fs::write(&two, b"").unwrap();
        let inputs = [one.clone(), two];
        let payload = Payload::new(&words("/bin/helm up"), &inputs, Some(stored())).unwrap();
        assert_eq!(payload.program, "helm");
        let read = Payload::decode(&payload.encode()).unwrap();
        assert_eq!(read, payload);
        assert_eq!(payload.encode(), read.encode(), "the same work has the same digest");
        std::fs::remove_file(&one).unwrap();
        read.restore().unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), b"line\nline\xff");
        for other in [&b""[..], b"image: v2\n", b"{}\n", &payload.encode()[..40]] {
            assert_eq!(Payload::decode(other), None);
        }
    }

    #[test]
    fn a_command_line_is_stored_only_on_request() {
        let payload = Payload::new(&words("helm --set password=secret"), &[], None).unwrap();
        let text = String::from_utf8(payload.encode()).unwrap();
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn other_work_differs_from_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("values");
        std::fs::write(&path, b"a").unwrap();
        let inputs = [path.clone()];
        let payload = Payload::new(&words("helm a"), &inputs, None).unwrap();
        assert_eq!(payload.difference(&payload), None);
        let with = Payload::new(&words("helm a"), &inputs, Some(stored())).unwrap();
        assert_eq!(payload.difference(&with), None, "what is stored beside it is no other work");
        for (command, expected) in [("tofu a", "it runs helm"), ("helm b", "command line")] {
            let other = Payload::new(&words(command), &inputs, None).unwrap();
            assert!(other.difference(&payload).unwrap().contains(expected));
        }
        std::fs::write(&path, b"b").unwrap();
        let other = Payload::new(&words("helm a"), &inputs, None).unwrap();
        assert!(other.difference(&payload).unwrap().contains("input"));
        let other = Payload::new(&words("helm a"), &[], None).unwrap();
        assert!(other.difference(&payload).unwrap().contains("input"));
        let other = Payload { folder: "/elsewhere".into(), ..payload.clone() };
        assert!(payload.difference(&other).unwrap().contains("/elsewhere"));
    }

    #[test]
    fn inputs_beyond_the_limit_of_an_operation_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        std::fs::write(&path, vec![0; PAYLOAD_BYTES_MAX]).unwrap();
        let error = Payload::new(&words("x"), &[path], None).unwrap_err();
        assert!(error.0.contains("leave large files out"), "{error}");
        assert!(Payload::new(&words("x"), &["/nowhere".into()], None).is_err());
    }
}

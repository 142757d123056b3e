//! A value that is read from files, and read again when they change. Invalid files change nothing.

mod file;
mod follow;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;

pub use file::{content, text};
pub use follow::{PERIOD, follow};

use super::Error;
use crate::sync::{lock, read, write};
use file::contents;

/// What the files of a value are, and how they are parsed.
pub trait FileSet: Send + Sync + 'static {
    /// The value.
    type Value: Send + Sync;
    /// The name of the value in log lines.
    const NAME: &'static str;

    /// Returns the files.
    fn paths(&self) -> Vec<PathBuf>;

    /// Parses the contents of the files, in the order of `paths`.
    ///
    /// # Errors
    /// If the contents are invalid. The error names the file.
    fn parse(&self, contents: &[Vec<u8>]) -> Result<Self::Value, Error>;

    /// Checks that a value which was read later may take the place of `_before`. By default each
    /// valid value may.
    ///
    /// # Errors
    /// If the files lack what they had, so that they may be cut. The error names the file.
    fn may_follow(&self, _before: &Self::Value, _later: &Self::Value) -> Result<(), Error> {
        Ok(())
    }
}

/// The newest valid value of a source.
pub struct Reloaded<S: FileSet> {
    source: S,
    current: RwLock<Arc<S::Value>>,
    /// Digest of the contents that were last parsed, valid or not; `None` if they were not read.
    seen: Mutex<Option<[u8; 32]>>,
    is_stale: AtomicBool,
    /// When the files were last read and valid.
    good: Mutex<Instant>,
}

impl<S: FileSet> Reloaded<S> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid.
    pub fn open(source: S) -> Result<Arc<Reloaded<S>>, Error> {
        let contents = contents(&source.paths())?;
        let value = source.parse(&contents)?;
        Ok(Arc::new(Reloaded {
            source,
            current: RwLock::new(Arc::new(value)),
            seen: Mutex::new(Some(digest_of(&contents))),
            is_stale: AtomicBool::new(false),
            good: Mutex::new(Instant::now()),
        }))
    }

    /// Returns the newest valid value.
    pub fn get(&self) -> Arc<S::Value> {
        read(&self.current).clone()
    }

    /// Returns the source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Parses contents that were read or fetched, if they have changed, and logs the result.
    /// Returns whether a new value is in force; after an error the previous one is.
    pub fn replace(&self, contents: Result<Vec<Vec<u8>>, Error>) -> bool {
        let mut seen = lock(&self.seen);
        let digest = contents.as_ref().ok().map(|contents| digest_of(contents));
        if *seen == digest {
            self.note(!self.is_stale());
            return false;
        }
        *seen = digest;
        let parsed = contents.and_then(|contents| self.next(&contents));
        let (what, is_valid) = (S::NAME, parsed.is_ok());
        self.note(is_valid);
        match parsed {
            Ok(value) => {
                *write(&self.current) = Arc::new(value);
                tracing::info!(what, "read changed contents");
            }
            Err(error) => {
                tracing::error!(what, %error, "invalid contents: the previous ones stay in force");
            }
        }
        is_valid
    }

    fn next(&self, contents: &[Vec<u8>]) -> Result<S::Value, Error> {
        let value = self.source.parse(contents)?;
        self.source.may_follow(&self.get(), &value)?;
        Ok(value)
    }

    /// Notes the end of a look.
    fn note(&self, is_valid: bool) {
        self.is_stale.store(!is_valid, Ordering::Relaxed);
        if is_valid {
            *lock(&self.good) = Instant::now();
        }
    }
}

/// A value that can be read again, whatever its type is.
pub trait Reload: Send + Sync {
    /// Returns the name of the value, as in log lines.
    fn name(&self) -> &'static str;

    /// Reads the files again if they have changed, and logs what happened. Returns whether a new
    /// value is in force. Waits for as long as a file does not answer.
    fn reload(&self) -> bool;

    /// Notes that a look is under way for longer than `max`.
    fn overdue(&self, max: Duration);

    /// Returns whether the files are invalid or do not answer, so that an earlier value is in
    /// force.
    fn is_stale(&self) -> bool;

    /// Returns the time since the files were last read and valid.
    fn age(&self) -> Duration;
}

impl<S: FileSet> Reload for Reloaded<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn reload(&self) -> bool {
        // A source without files gets its contents by `replace`.
        let paths = self.source.paths();
        !paths.is_empty() && self.replace(contents(&paths))
    }

    fn overdue(&self, max: Duration) {
        let path = self.source.paths().into_iter().next().unwrap_or_default();
        let problem = format!("it, or another file of its set, does not answer within {max:?}");
        self.replace(Err(Error::invalid(&path, problem)));
    }

    fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    fn age(&self) -> Duration {
        lock(&self.good).elapsed()
    }
}

fn digest_of(contents: &[Vec<u8>]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for content in contents {
        context.update(&(content.len() as u64).to_be_bytes());
        context.update(content);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(PathBuf);

    impl FileSet for Number {
        type Value = u32;
        const NAME: &'static str = "number";

        fn paths(&self) -> Vec<PathBuf> {
            vec![self.0.clone()]
        }

        fn parse(&self, contents: &[Vec<u8>]) -> Result<u32, Error> {
            let text = String::from_utf8_lossy(&contents[0]);
            text.parse().map_err(|_| Error::invalid(&self.0, "no number"))
        }
    }

    #[test]
    fn the_last_valid_file_counts_after_any_change_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        assert!(matches!(Reloaded::open(Number(path.clone())), Err(Error::Read(..))));
        std::fs::write(&path, "x").unwrap();
        assert!(matches!(Reloaded::open(Number(path.clone())), Err(Error::Invalid(..))));
        std::fs::write(&path, "1").unwrap();
        let files = Reloaded::open(Number(path.clone())).unwrap();
        assert!(!files.reload());
        for (text, value, is_stale) in [
            (Some("2"), 2, false),
            (Some(""), 2, true),
            (Some("3"), 3, false),
            (None, 3, true),
            (Some("x"), 3, true),
            (Some("3"), 3, false),
        ] {
            match text {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let before = *lock(&files.good);
            files.reload();
            assert_eq!((*files.get(), files.is_stale()), (value, is_stale), "{text:?}");
            assert!(!files.reload(), "{text:?}: one line for each change");
            assert_eq!(*lock(&files.good) == before, is_stale, "{text:?}: the last good look");
        }
    }

    #[test]
    fn files_that_do_not_answer_are_stale_until_they_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let files = Reloaded::open(Number(path)).unwrap();
        files.overdue(Duration::from_secs(2));
        assert_eq!((*files.get(), files.is_stale()), (1, true));
        files.reload();
        assert_eq!((*files.get(), files.is_stale()), (1, false));
    }
}

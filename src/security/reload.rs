//! A value that is read from files, and read again when they change. Invalid files change nothing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use aws_lc_rs::digest;
use tokio::sync::Notify;

use super::Error;
use crate::sync::{lock, read, write};

/// How often the files are read: a revoked token is refused within this time. Polling also notices
/// the symbolic links that Kubernetes replaces, which notifications of a file system often miss.
pub const PERIOD: Duration = Duration::from_secs(3);

/// The largest file that is read: a bundle of a thousand certificates.
const FILE_BYTES_MAX: u64 = 4 << 20;

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
}

/// The newest valid value of a source.
pub struct Reloaded<S: FileSet> {
    source: S,
    current: RwLock<Arc<S::Value>>,
    /// Digest of the contents that were last parsed, valid or not; `None` if they were not read.
    seen: Mutex<Option<[u8; 32]>>,
    is_stale: AtomicBool,
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
            return false;
        }
        *seen = digest;
        let parsed = contents.and_then(|contents| self.source.parse(&contents));
        let (what, is_valid) = (S::NAME, parsed.is_ok());
        self.is_stale.store(!is_valid, Ordering::Relaxed);
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
}

/// A value that can be read again, whatever its type is.
pub trait Reload: Send + Sync {
    /// Reads the files again if they have changed, and logs what happened. Returns whether a new
    /// value is in force.
    fn reload(&self) -> bool;

    /// Returns whether the files are invalid, so that an earlier value is in force.
    fn is_stale(&self) -> bool;
}

impl<S: FileSet> Reload for Reloaded<S> {
    fn reload(&self) -> bool {
        // A source without files gets its contents by `replace`.
        let paths = self.source.paths();
        !paths.is_empty() && self.replace(contents(&paths))
    }

    fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }
}

/// Reads all values again at each period, and at once when `reload_now` is notified. Passes to
/// `after` how many of them are stale, and whether one has changed. Runs until it is dropped.
pub async fn follow(
    all: Vec<Arc<dyn Reload>>,
    reload_now: Arc<Notify>,
    after: impl Fn(usize, bool),
) {
    loop {
        // Either way the files are read.
        let _elapsed = tokio::time::timeout(PERIOD, reload_now.notified()).await;
        let again = all.clone();
        // A file may be on a network that does not answer.
        let looked = tokio::task::spawn_blocking(move || {
            let changed = again.iter().filter(|each| each.reload()).count();
            (again.iter().filter(|each| each.is_stale()).count(), 0 < changed)
        });
        if let Ok((stale, has_changed)) = looked.await {
            after(stale, has_changed);
        }
    }
}

fn contents(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, Error> {
    paths.iter().map(|path| content(path)).collect()
}

fn content(path: &Path) -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let failed = |error| Error::Read(path.to_path_buf(), error);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    match FILE_BYTES_MAX < bytes.len() as u64 {
        true => Err(Error::invalid(path, format!("it has more than {FILE_BYTES_MAX} bytes"))),
        false => Ok(bytes),
    }
}

/// Returns the text of a source that is one file.
pub(super) fn text<'c>(path: &Path, contents: &'c [Vec<u8>]) -> Result<&'c str, Error> {
    let content = contents.first().map(Vec::as_slice).unwrap_or_default();
    std::str::from_utf8(content).map_err(|_| Error::invalid(path, "it is not UTF-8"))
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
            files.reload();
            assert_eq!((*files.get(), files.is_stale()), (value, is_stale), "{text:?}");
            assert!(!files.reload(), "{text:?}: one line for each change");
        }
    }
}

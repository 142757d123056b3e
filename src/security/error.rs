//! Why the files of the protection are refused.

use std::path::{Path, PathBuf};

/// The mistake in a file. No text of the file is in it: the file may hold a key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("read {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// The content of this URL cannot be fetched.
    #[error("fetch {0}: {1}")]
    Fetch(String, String),
    /// The content of the file is invalid: what is wrong, and what to do.
    #[error("{path}: {1}", path = .0.display())]
    Invalid(PathBuf, String),
}

impl Error {
    /// Returns the error of a file with this mistake.
    pub fn invalid(path: &Path, problem: impl Into<String>) -> Error {
        Error::Invalid(path.to_path_buf(), problem.into())
    }
}

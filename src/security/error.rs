//! Why the files of the protection are refused.

use std::path::{Path, PathBuf};

/// The mistake in a file. No text of the file is in it: the file may hold a key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The content of a URL cannot be fetched.
    #[error("fetch {url}: {problem}")]
    Fetch {
        /// The URL.
        url: String,
        /// What failed.
        problem: String,
    },
    /// The content of the file is invalid.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
}

impl Error {
    /// Returns the error of a file with this mistake.
    pub fn invalid(path: &Path, problem: impl Into<String>) -> Error {
        Error::Invalid { path: path.to_path_buf(), problem: problem.into() }
    }
}

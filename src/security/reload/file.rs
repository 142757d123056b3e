//! The contents of files that protect the server.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::security::Error;

/// The largest file that is read: a bundle of a thousand certificates.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads files in this order.
///
/// # Errors
/// As [`content`].
pub(super) fn contents(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, Error> {
    paths.iter().map(|path| content(path)).collect()
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read, is too large, or is not a regular file: a pipe may never have an end.
pub fn content(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |error| Error::Read(path.to_path_buf(), error);
    // To open a pipe without a writer would take for ever.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Error::invalid(path, "it is not a regular file; name a file or a link to one"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    match FILE_BYTES_MAX < bytes.len() as u64 {
        true => Err(Error::invalid(path, format!("it has more than {FILE_BYTES_MAX} bytes"))),
        false => Ok(bytes),
    }
}

/// Returns the text of a source that is one file.
pub fn text<'c>(path: &Path, contents: &'c [Vec<u8>]) -> Result<&'c str, Error> {
    let content = contents.first().map(Vec::as_slice).unwrap_or_default();
    std::str::from_utf8(content).map_err(|_| Error::invalid(path, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_is_read_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        for name in ["file", "link"] {
            assert_eq!(content(&path(name)).unwrap(), b"text", "{name}");
        }
        let others = [path("pipe"), directory.path().to_path_buf(), "/dev/zero".into()];
        for other in others {
            let error = content(&other).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        assert!(matches!(content(&path("none")), Err(Error::Read(..))));
        let large = std::fs::File::create(path("large")).unwrap();
        large.set_len(FILE_BYTES_MAX + 1).unwrap();
        let error = content(&path("large")).unwrap_err().to_string();
        assert!(error.contains("more than"), "{error}");
    }
}

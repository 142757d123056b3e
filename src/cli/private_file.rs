//! Files that only their owner may read.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context as _;

/// Replaces a file at once, so that another process never reads a half of it.
///
/// # Errors
/// If the file, or the temporary file beside it, cannot be written.
pub fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let result = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    result.with_context(|| format!("write {}", path.display()))
}

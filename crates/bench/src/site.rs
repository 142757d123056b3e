//! What each measurement needs before it starts anything: the file of the server under test, and a
//! directory for the data of all sides.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::Load;

/// See the module.
#[derive(Debug, Clone)]
pub struct Site {
    /// The file of the server under test.
    pub bellwether: PathBuf,
    /// Where all sides keep their data.
    pub directory: PathBuf,
}

impl Site {
    /// The site that these flags describe. Fails if there is no server.
    pub fn of(load: &Load) -> anyhow::Result<Site> {
        Site::at(load.bellwether.as_deref(), load.dir.as_deref())
    }

    /// The site of a server's file and a directory, if they are given. Fails if there is no server.
    pub fn at(bellwether: Option<&Path>, dir: Option<&Path>) -> anyhow::Result<Site> {
        Ok(Site { bellwether: find(bellwether)?, directory: directory(dir) })
    }
}

/// The directory that was given, or one on a disk.
pub fn directory(given: Option<&Path>) -> PathBuf {
    let on_disk = PathBuf::from("/var/tmp");
    match given {
        Some(given) => given.to_path_buf(),
        None if on_disk.is_dir() => on_disk,
        None => std::env::temp_dir(),
    }
}

/// The file that was given, or the one that cargo puts beside this program.
fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let file = match given {
        // With its folder: a bare name would be looked for on the PATH.
        Some(given) => std::path::absolute(given).context("--bellwether")?,
        None => {
            let own = std::env::current_exe().context("find this program's file")?;
            own.with_file_name("bellwether")
        }
    };
    match file.is_file() {
        true => Ok(file),
        false => bail!(
            "no server at {}; build it (cargo build --bin bellwether, with --release for figures \
             that count), or name its file: --bellwether FILE",
            file.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_binary_is_used_and_a_missing_one_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("bellwether");
        let error = find(Some(&file)).unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()), "{error}");
        assert!(error.contains("cargo build --bin bellwether"), "{error}");
        std::fs::write(&file, "").unwrap();
        assert_eq!(find(Some(&file)).unwrap(), file);
    }
}

//! The machine of a measurement.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::figure::thousands;

/// The machine, as far as it matters to figures. Unknown values are empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores, shared by the servers and the load.
    pub cores: usize,
    /// The name of the processor.
    pub processor: String,
    /// Memory, shared likewise; 0 if unknown.
    pub memory_bytes: u64,
    /// Kernel.
    pub kernel: String,
    /// Running processes over the last minute, before the measurement: a busy machine blurs
    /// figures.
    pub load: String,
    /// The directory of the data.
    pub directory: PathBuf,
    /// The type of its file system.
    pub filesystem: String,
    /// Whether the build is without optimisation, so that our figures mean nothing.
    pub debug_build: bool,
    /// Commit of the checkout that this program was built in, with `-dirty` if it has changes;
    /// empty elsewhere.
    pub commit: String,
}

impl Machine {
    /// Describes this machine, with data in `directory`.
    pub fn look(directory: &Path) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let first_word = |text: String| text.split_whitespace().next().unwrap_or("").to_string();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor(&read("/proc/cpuinfo")),
            memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or(0),
            kernel: first_word(read("/proc/sys/kernel/osrelease")),
            load: first_word(read("/proc/loadavg")),
            filesystem: directory
                .canonicalize()
                .map(|directory| filesystem(&read("/proc/self/mounts"), &directory))
                .unwrap_or_default(),
            directory: directory.to_path_buf(),
            debug_build: cfg!(debug_assertions),
            commit: commit().unwrap_or_default(),
        }
    }
}

impl Display for Machine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (processor, kernel) = (&self.processor, &self.kernel);
        let (directory, filesystem) = (self.directory.display(), &self.filesystem);
        let mebibytes = thousands(self.memory_bytes as f64 / f64::from(1 << 20));
        write!(f, "{} cores for servers and load, {processor}, {mebibytes} MiB, ", self.cores)?;
        write!(f, "Linux {kernel}")?;
        write!(f, "\n         load {} before, data in {directory} on {filesystem}", self.load)?;
        if !self.commit.is_empty() {
            write!(f, "\n         commit {}", self.commit)?;
        }
        if self.filesystem == "tmpfs" {
            write!(
                f,
                "\n         THAT IS MEMORY: an fsync costs nothing there; give --dir on a disk"
            )?;
        }
        if self.debug_build {
            write!(
                f,
                "\n         DEBUG BUILD: our figures mean nothing; use cargo build --release"
            )?;
        }
        Ok(())
    }
}

fn processor(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim());
    model.unwrap_or(std::env::consts::ARCH).to_string()
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// Returns the commit of the checkout around this program's file, if it is a checkout of
/// Bellwether.
fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let mut above = program.ancestors();
    let checkout = above.find(|folder| folder.join("proto/bellwether").is_dir())?;
    let mut command = Command::new("git");
    command.arg("-C").arg(checkout).args(["describe", "--always", "--dirty", "--abbrev=12"]);
    // Tags would hide the commit.
    command.args(["--exclude", "*"]);
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}

/// The type of the file system that holds `directory`: that of the longest mount point above it,
/// and among equals of the last, which covers the others.
fn filesystem(mounts: &str, directory: &Path) -> String {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?))
    });
    mounts
        .filter(|(point, _)| directory.starts_with(point))
        .max_by_key(|(point, _)| point.components().count())
        .map(|(_, kind)| kind.to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_determines_the_file_system() {
        let mounts = "\
rootfs / rootfs rw 0 0
/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/disk xfs rw 0 0
";
        for (directory, expected) in
            [("/var/tmp", "ext4"), ("/tmp/x", "tmpfs"), ("/tmp/disk/x", "xfs"), ("/tmpx", "ext4")]
        {
            assert_eq!(filesystem(mounts, Path::new(directory)), expected, "{directory}");
        }
    }

    #[test]
    fn memory_is_printed_in_kibibytes() {
        assert_eq!(memory_bytes("MemTotal:        8000 kB\nMemFree: 1 kB\n"), Some(8_192_000));
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_processor_names_itself() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: AMD EPYC\n"), "AMD EPYC");
        assert_eq!(processor("processor: 0"), std::env::consts::ARCH);
    }
}

//! The machine that a measurement was taken on.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The machine, as far as it matters to figures. What cannot be found out is empty.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Cores, shared by the servers and the load.
    pub cores: usize,
    /// What the processor calls itself.
    pub processor: String,
    /// Kernel.
    pub kernel: String,
    /// Running processes over the last minute, before we began: a busy machine blurs figures.
    pub load: String,
    /// Where data was written.
    pub directory: PathBuf,
    /// Which file system that is.
    pub filesystem: String,
    /// Built without optimisation, so that our figures mean nothing.
    pub debug_build: bool,
}

impl Machine {
    /// Looks at this machine, with data in `directory`.
    pub fn look(directory: &Path) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let first_word = |text: String| text.split_whitespace().next().unwrap_or("").to_string();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor(&read("/proc/cpuinfo")),
            kernel: first_word(read("/proc/sys/kernel/osrelease")),
            load: first_word(read("/proc/loadavg")),
            filesystem: directory
                .canonicalize()
                .map(|directory| filesystem(&read("/proc/self/mounts"), &directory))
                .unwrap_or_default(),
            directory: directory.to_path_buf(),
            debug_build: cfg!(debug_assertions),
        }
    }
}

impl Display for Machine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (processor, kernel) = (&self.processor, &self.kernel);
        let (directory, filesystem) = (self.directory.display(), &self.filesystem);
        write!(f, "{} cores for servers and load, {processor}, Linux {kernel}", self.cores)?;
        write!(f, "\n         load {} before, data in {directory} on {filesystem}", self.load)?;
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
    fn the_nearest_mount_tells_the_file_system() {
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
    fn the_processor_names_itself() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: AMD EPYC\n"), "AMD EPYC");
        assert_eq!(processor("processor: 0"), std::env::consts::ARCH);
    }
}

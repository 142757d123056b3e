//! A process started for a measurement: killed, and its directory removed, when dropped.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;

/// How long a process may take until it serves. A cold etcd on a busy disk takes some seconds.
pub const START_DEADLINE: Duration = Duration::from_secs(15);

/// Lines of a log that an error quotes.
const LOG_LINES_QUOTED: usize = 5;

/// A running process with a directory of its own.
pub struct Process {
    name: String,
    child: Child,
    // Kept open for as long as the process runs: a write to a closed stdout would end it.
    stdout: BufReader<ChildStdout>,
    directory: TempDir,
}

impl Process {
    /// Starts `command`. Its stderr goes to a file in `directory`; its stdin ends when this process
    /// ends.
    pub fn start(mut command: Command, directory: TempDir) -> anyhow::Result<Process> {
        let name = Path::new(command.get_program())
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let log = File::create(directory.path().join("log")).context("create a log file")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().with_context(|| format!("start {name}"))?;
        let stdout = child.stdout.take().context("no stdout although it was asked for")?;
        let stdout = BufReader::new(ChildStdout::from_std(stdout)?);
        Ok(Process { name, child, stdout, directory })
    }

    /// Kills the process with SIGKILL, and starts `command` in its place with the same directory.
    pub fn replace(&mut self, mut command: Command) -> anyhow::Result<()> {
        self.child.kill().with_context(|| format!("kill {}", self.name))?;
        self.child.wait()?;
        let path = self.directory.path().join("log");
        let log = File::options().append(true).open(path).context("open the log file")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        self.child = command.spawn().with_context(|| format!("start {}", self.name))?;
        let stdout = self.child.stdout.take().context("no stdout although it was asked for")?;
        self.stdout = BufReader::new(ChildStdout::from_std(stdout)?);
        Ok(())
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the directory of its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the next line of its stdout, within [`START_DEADLINE`].
    pub async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        match tokio::time::timeout(START_DEADLINE, self.stdout.read_line(&mut line)).await {
            Ok(Ok(read)) if read > 0 => Ok(line),
            Ok(_closed) => bail!("{} ended before it gave its address;{}", self.name, self.log()),
            Err(_) => bail!(
                "{} did not give its address within {} s;{}",
                self.name,
                START_DEADLINE.as_secs(),
                self.log()
            ),
        }
    }

    /// Fails with the end of its log if the process has ended.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status});{}", self.name, self.log()),
        }
    }

    /// Returns the size of its log, in bytes.
    pub fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.directory.path().join("log")).map_or(0, |log| log.len())
    }

    /// Returns the end of its log, to append to an error.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.directory.path().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() {
            return " it logged nothing".to_string();
        }
        let from = lines.len().saturating_sub(LOG_LINES_QUOTED);
        format!(" it logged:\n  {}", lines[from..].join("\n  "))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its data is discarded, so it need not shut down cleanly. Waiting keeps it from writing
        // into the directory while that is removed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the seconds of processor time that a running process has used, with a resolution of 10
/// ms.
pub fn cpu_seconds(id: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{id}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    parse_stat(&stat).with_context(|| format!("read the times in {path}: {stat:?}"))
}

/// Linux reports times to programs in hundredths of a second, whatever the rate of its own clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the user and system time of a process. The name before them may contain any character,
/// also blanks and parentheses.
fn parse_stat(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / TICKS_PER_SECOND)
}

/// Creates a directory under `parent` that is removed when dropped.
pub fn directory(parent: &Path) -> anyhow::Result<TempDir> {
    tempfile::Builder::new().prefix("bellwether-bench-").tempdir_in(parent).with_context(|| {
        format!("create a directory in {}; give another with --dir", parent.display())
    })
}

/// Finds a program on the PATH.
pub fn find(program: &str) -> Option<PathBuf> {
    find_all(program).into_iter().next()
}

/// Finds all programs of this name on the PATH, in its order.
pub fn find_all(program: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files = std::env::split_paths(&path).map(|dir| dir.join(program));
    files.filter(|file| file.is_file()).collect()
}

/// Returns distinct addresses that are free now, for programs that cannot report the port they got.
/// Another process may take one before.
pub fn free_addresses<const N: usize>() -> anyhow::Result<[SocketAddr; N]> {
    let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    let mut held = Vec::new();
    for address in &mut addresses {
        let listener = TcpListener::bind(*address).context("find a free port")?;
        *address = listener.local_addr()?;
        held.push(listener);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, directory(&std::env::temp_dir()).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_process_prints_a_line_and_ends_when_dropped() {
        let mut process = shell("echo here; exec sleep 1000");
        assert_eq!(process.line().await.unwrap(), "here\n");
        process.check_running().unwrap();
        let (directory, id) = (process.directory().to_path_buf(), process.child.id());
        drop(process);
        assert!(!directory.exists());
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[tokio::test]
    async fn a_process_is_replaced_in_its_directory() {
        let mut process = shell("echo first >&2; echo first; exec sleep 1000");
        assert_eq!(process.line().await.unwrap(), "first\n");
        let (directory, first) = (process.directory().to_path_buf(), process.id());
        let mut command = Command::new("sh");
        command.args(["-c", "echo second >&2; echo second; exec sleep 1000"]);
        process.replace(command).unwrap();
        assert_eq!(process.line().await.unwrap(), "second\n");
        assert!(!Path::new(&format!("/proc/{first}")).exists(), "the first one was killed");
        assert_eq!(
            (process.directory(), &*process.log()),
            (&*directory, " it logged:\n  first\n  second")
        );
    }

    #[test]
    fn times_are_read_whatever_the_name_is() {
        let stat = "17 (a ) S b) S 1 17 17 0 -1 4194560 100 0 0 0 250 50 7 8 20 0 2 0 99";
        assert_eq!(parse_stat(stat), Some(3.0));
        assert_eq!(parse_stat("17 (sh) S 1"), None);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
    }

    #[tokio::test]
    async fn last_words_are_quoted() {
        let mut process = shell("echo the disk is on fire >&2; exit 3");
        let error = process.line().await.unwrap_err().to_string();
        assert!(error.contains("sh ended before"), "{error}");
        assert!(error.contains("the disk is on fire"), "{error}");
    }
}

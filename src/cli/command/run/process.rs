//! A process in a group of its own, which ends as a whole.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

/// What is kept of each stream: the guidelines of plugins ask readers for as much.
const KEPT_BYTES_MAX: usize = 512 * 1024;
/// How long a stream that another process keeps open is read after the end of the first one.
const LEFT_OPEN_MAX: Duration = Duration::from_millis(500);
/// The time between SIGTERM and SIGKILL.
const TERM_TO_KILL: Duration = Duration::from_secs(2);

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It took too long.
    TimedOut,
    /// There is no such file.
    NotFound,
    /// The file may not be executed, or is no program.
    NotExecutable,
    /// The system could not start it.
    NotStarted(String),
}

/// The end of a process, with what it wrote.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub ended: Ended,
    /// What it wrote to stdout.
    pub out: Vec<u8>,
    /// What it wrote to stderr.
    pub err: Vec<u8>,
}

/// Runs a command until its end, at most for a time. Afterwards no process of its group is left.
/// A caller that gives up ends the group too.
pub async fn run(command: &[String], time_max: Duration) -> Finished {
    let mut running = match Running::start(command) {
        Ok(running) => running,
        Err(error) => {
            let ended = not_started(&error);
            return Finished { ended, out: Vec::new(), err: error.to_string().into_bytes() };
        }
    };
    let ended = match timeout(time_max, running.end()).await {
        Ok(status) => status.map_or_else(|error| not_started(&error), how),
        Err(_elapsed) => {
            running.signal(Signal::TERM);
            let _ = timeout(TERM_TO_KILL, running.end()).await;
            Ended::TimedOut
        }
    };
    running.finish(ended).await
}

/// A running process, the leader of its group.
struct Running {
    child: Child,
    group: Option<Pid>,
    out: Captured<ChildStdout>,
    err: Captured<ChildStderr>,
}

impl Running {
    fn start(command: &[String]) -> io::Result<Running> {
        let [program, arguments @ ..] = command else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (out, err) = (Captured::of(child.stdout.take()), Captured::of(child.stderr.take()));
        Ok(Running { child, group, out, err })
    }

    /// Waits for the end of the process and of its output. Cancel safe.
    async fn end(&mut self) -> io::Result<ExitStatus> {
        let Running { child, out, err, .. } = self;
        let mut reading = std::pin::pin!(async { tokio::join!(out.fill(), err.fill()) });
        let mut is_read = false;
        let status = loop {
            tokio::select! {
                _ = &mut reading, if !is_read => is_read = true,
                status = child.wait() => break status?,
            }
        };
        // Another process may have inherited the streams.
        if !is_read {
            let _ = timeout(LEFT_OPEN_MAX, reading).await;
        }
        Ok(status)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An empty group is no error.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Ends what is left of the group.
    async fn finish(mut self, ended: Ended) -> Finished {
        self.signal(Signal::KILL);
        let _ = self.child.wait().await;
        self.group = None;
        let (out, err) = (std::mem::take(&mut self.out.kept), std::mem::take(&mut self.err.kept));
        Finished { ended, out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// What a stream has given so far, up to a limit. The rest is read and dropped, so that the writer
/// does not wait.
struct Captured<R> {
    pipe: Option<R>,
    kept: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Captured<R> {
    fn of(pipe: Option<R>) -> Captured<R> {
        Captured { pipe, kept: Vec::new() }
    }

    /// Reads to the end. Cancel safe.
    async fn fill(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut chunk = [0; 4_096];
        while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
            let room = KEPT_BYTES_MAX - self.kept.len();
            self.kept.extend_from_slice(&chunk[..count.min(room)]);
        }
    }
}

fn how(status: ExitStatus) -> Ended {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        // A shell says so of the command that it could not run.
        (Some(126), _) => Ended::NotExecutable,
        (Some(127), _) => Ended::NotFound,
        (Some(code), _) => Ended::Exit(code),
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    }
}

fn not_started(error: &io::Error) -> Ended {
    match error.kind() {
        io::ErrorKind::NotFound => Ended::NotFound,
        io::ErrorKind::PermissionDenied => Ended::NotExecutable,
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            Ended::NotExecutable
        }
        _ => Ended::NotStarted(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run_script(script: &str, time_max: Duration) -> Finished {
        run(&["sh".to_string(), "-c".to_string(), script.to_string()], time_max).await
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn each_end_differs_from_the_others() {
        for (script, expected) in [
            ("exit 0", Ended::Exit(0)),
            ("exit 3", Ended::Exit(3)),
            ("kill -9 $$", Ended::Signal(9)),
            ("exit 126", Ended::NotExecutable),
            ("exit 127", Ended::NotFound),
        ] {
            assert_eq!(run_script(script, LONG).await.ended, expected, "{script}");
        }
        let alone = async |name: &str| run(&[name.to_string()], LONG).await.ended;
        assert_eq!(alone("/nowhere/check_x").await, Ended::NotFound);
        assert_eq!(alone("/etc/passwd").await, Ended::NotExecutable);
        assert_eq!(run(&[], LONG).await.ended, Ended::NotFound);
    }

    #[tokio::test]
    async fn a_group_that_ignores_sigterm_is_killed_and_what_it_wrote_is_kept() {
        let script = "trap '' TERM; echo $$; sh -c 'trap \"\" TERM; echo $$; sleep 1000 & wait'";
        let finished = run_script(script, SHORT).await;
        assert_eq!(finished.ended, Ended::TimedOut);
        let text = String::from_utf8(finished.out).unwrap();
        let processes: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(processes.len(), 2, "{text}");
        let group = Pid::from_raw(processes[0]).unwrap();
        // The end of an orphan is noticed by the first process of the system, later.
        let is_over = || rustix::process::test_kill_process_group(group).is_err();
        let start = std::time::Instant::now();
        while !is_over() && !only_zombies(group) {
            assert!(start.elapsed() < LONG, "a process of the group is left");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns whether each process of the group has ended, and only its entry is left.
    fn only_zombies(group: Pid) -> bool {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = entries.filter_map(|e| std::fs::read_to_string(e.path().join("stat")).ok());
        stats.into_iter().all(|stat| {
            let fields: Vec<&str> =
                stat.rsplit_once(')').unwrap_or(("", "")).1.split_whitespace().collect();
            let is_of_group = fields.get(2) == Some(&group.as_raw_nonzero().to_string().as_str());
            !is_of_group || fields.first() == Some(&"Z")
        })
    }

    #[tokio::test]
    async fn output_without_an_end_is_bounded() {
        let finished = run_script("yes 2>/dev/null | head -c 2000000; exit 1", LONG).await;
        assert_eq!((finished.ended, finished.out.len()), (Ended::Exit(1), KEPT_BYTES_MAX));
    }

    #[tokio::test]
    async fn a_process_that_is_left_behind_delays_nothing() {
        let finished = run_script("echo done; sleep 1000 & exit 2", LONG).await;
        assert_eq!((finished.ended, finished.out), (Ended::Exit(2), b"done\n".to_vec()));
    }
}

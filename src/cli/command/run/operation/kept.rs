//! A command under a keeper: fed with each renewal, its output passed on and its last lines kept.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::cli::command::run::keeper::boot_clock::BootTimer;
use crate::cli::command::run::keeper::deadline::Lease;
use crate::cli::command::run::keeper::message::{FromKeeper, Inbox, ToKeeper, send};
use crate::cli::command::run::keeper::tree;
use crate::cli::command::run::operation::held::{Held, Revoked};
use crate::cli::command::run::operation::lines::Lines;
use crate::cli::command::run::operation::signals::StopSignals;

/// What is kept of the output of a script.
const KEPT_BYTES_MAX: usize = 65_536;
/// How long output is read that another process keeps open.
const LEFT_OPEN_MAX: Duration = Duration::from_millis(500);
/// How long after its time a keeper that did not kill counts as stopped itself.
const KEEPER_LATE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command to run.
pub struct Task<'a> {
    /// The command.
    pub command: &'a [String],
    /// Variables for its environment.
    pub variables: &'a [(String, OsString)],
    /// Its name in the progress; `None` for a script, whose output is kept instead of passed on.
    pub name: Option<&'a str>,
    /// How long it may take.
    pub time_max: Option<Duration>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnd {
    /// It exited with this code.
    Exit(u8),
    /// This signal ended it.
    Signal(u8),
    /// Its keeper ended, so it was killed.
    Unkept,
}

impl TaskEnd {
    /// Returns the exit code as a shell gives it.
    pub fn code(self) -> u8 {
        match self {
            TaskEnd::Exit(code) => code,
            TaskEnd::Signal(signal) => 128_u8.saturating_add(signal),
            TaskEnd::Unkept => 137,
        }
    }
}

/// The end of a command, with what it wrote.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub end: TaskEnd,
    /// The last lines of stderr; those of stdout, if there are none.
    pub lines: Vec<String>,
    /// The output of a script.
    pub out: Vec<u8>,
}

/// Runs a command under a keeper until no process of it is left.
///
/// # Errors
/// If the keeper cannot be started.
pub async fn run(
    task: Task<'_>,
    held: &mut Held,
    lease: Lease,
    stop: &mut StopSignals,
) -> anyhow::Result<Report> {
    let (mut keeper, ours) = start(&task, held, lease).context("cannot start the keeper")?;
    let streams = Streams::read(&mut keeper, task.name.is_some());
    let (from, to) = ours.into_split();
    let mut kept = KeptTask { to, group: None, end: None };
    kept.serve(Inbox::new(from), &task, held, lease, stop, &streams).await?;
    if kept.end.is_none() {
        // The keeper ended, or stands still past its time.
        let _ = keeper.start_kill();
        let _ = keeper.wait().await;
        kept.kill_all().await;
    }
    let _ = keeper.wait().await;
    let (lines, out) = streams.finish().await;
    Ok(Report { end: kept.end.unwrap_or(TaskEnd::Unkept), lines, out })
}

fn start(task: &Task<'_>, held: &Held, lease: Lease) -> anyhow::Result<(Child, UnixStream)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let renewed = held.renewed.borrow().as_nanos();
    // Of the running program, also after its file was replaced.
    let keeper = Command::new("/proc/self/exe")
        .arg("keeper")
        .args(["--lease", &lease.length.as_millis().to_string()])
        .args(["--grace", &lease.grace.as_millis().to_string()])
        .args(["--renewed", &renewed.to_string(), "--"])
        .args(task.command)
        .envs(task.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok((keeper, UnixStream::from_std(ours)?))
}

/// The command as the runner sees it.
struct KeptTask {
    to: OwnedWriteHalf,
    group: Option<Pid>,
    end: Option<TaskEnd>,
}

impl KeptTask {
    async fn serve(
        &mut self,
        mut inbox: Inbox,
        task: &Task<'_>,
        held: &mut Held,
        lease: Lease,
        stop: &mut StopSignals,
        streams: &Streams,
    ) -> anyhow::Result<()> {
        let timer = BootTimer::new()?;
        let mut time_out = std::pin::pin!(async {
            match task.time_max {
                Some(time_max) => tokio::time::sleep(time_max).await,
                None => std::future::pending().await,
            }
        });
        let (mut is_over, mut is_ending) = (false, false);
        let (mut is_revoked, mut is_renewing) = (false, true);
        if stop.is_stopped {
            self.say(ToKeeper::End).await;
        }
        loop {
            let kill_at = lease.kill_at(*held.renewed.borrow());
            timer.set(Some(kill_at + KEEPER_LATE))?;
            tokio::select! {
                message = inbox.next() => match message.and_then(FromKeeper::decode) {
                    Some(FromKeeper::Started(id)) => self.group = Pid::from_raw(id),
                    Some(FromKeeper::Ended(code)) => {
                        self.end = Some(end_of(code));
                        return Ok(());
                    }
                    None => return Ok(()),
                },
                changed = held.renewed.changed(), if is_renewing => {
                    let at = *held.renewed.borrow();
                    // After a refusal there is no further heartbeat.
                    is_renewing = changed.is_ok();
                    if is_renewing {
                        self.say(ToKeeper::Renewed(at)).await;
                    }
                }
                () = is_set(&mut held.revoked), if !is_revoked => {
                    is_revoked = true;
                    match held.is_revoked() {
                        Some(Revoked::Cancelled) => self.say(ToKeeper::End).await,
                        _ => self.say(ToKeeper::Kill).await,
                    }
                }
                () = stop.asked(), if !is_ending => {
                    is_ending = true;
                    self.say(ToKeeper::End).await;
                }
                () = &mut time_out, if !is_over => {
                    is_over = true;
                    self.say(ToKeeper::Kill).await;
                }
                () = timer.fired() => return Ok(()),
                () = streams.changed() => {
                    if let (Some(name), Some(line)) = (task.name, streams.last()) {
                        held.set_progress(&format!("{name}: {line}"));
                    }
                }
            }
        }
    }

    /// A keeper that has ended is noticed by the inbox.
    async fn say(&mut self, message: ToKeeper) {
        let _ = send(&mut self.to, message.encode()).await;
    }

    /// Kills the command without its keeper. What the keeper has left belongs to this process.
    async fn kill_all(&self) {
        loop {
            if let Some(group) = self.group {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            tree::kill_all();
            let is_childless = tree::reap();
            let is_empty = |group| rustix::process::test_kill_process_group(group).is_err();
            if is_childless && self.group.is_none_or(is_empty) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Waits for a reason. Cancel safe.
async fn is_set(revoked: &mut watch::Receiver<Option<Revoked>>) {
    let _ = revoked.wait_for(Option::is_some).await;
}

fn end_of(code: i32) -> TaskEnd {
    match u8::try_from(code) {
        Ok(code) => TaskEnd::Exit(code),
        Err(_) => TaskEnd::Signal(u8::try_from(-code).unwrap_or(0)),
    }
}

/// The two output streams of a command.
struct Streams {
    kept: Arc<Mutex<[Stream; 2]>>,
    news: Arc<tokio::sync::Notify>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stream {
    lines: Lines,
    bytes: Vec<u8>,
}

impl Streams {
    /// Reads the output of the keeper, which is the command's.
    fn read(keeper: &mut Child, is_passed_on: bool) -> Streams {
        let (kept, news) = (Arc::<Mutex<[Stream; 2]>>::default(), Arc::default());
        let mut streams = Streams { kept, news, readers: Vec::new() };
        if let Some(out) = keeper.stdout.take() {
            streams.copy(0, out, is_passed_on.then(tokio::io::stdout));
        }
        if let Some(err) = keeper.stderr.take() {
            streams.copy(1, err, Some(tokio::io::stderr()));
        }
        streams
    }

    fn copy<R, W>(&mut self, place: usize, mut from: R, mut to: Option<W>)
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (kept, news) = (self.kept.clone(), self.news.clone());
        self.readers.push(tokio::spawn(async move {
            let mut chunk = vec![0; 8_192];
            while let Ok(count @ 1..) = from.read(&mut chunk).await {
                {
                    let stream = &mut lock(&kept)[place];
                    stream.lines.take(&chunk[..count]);
                    let room = KEPT_BYTES_MAX.saturating_sub(stream.bytes.len());
                    stream.bytes.extend_from_slice(&chunk[..count.min(room)]);
                }
                news.notify_one();
                // A reader of ours that is gone must not end the command.
                let is_passed = match &mut to {
                    Some(to) => {
                        to.write_all(&chunk[..count]).await.is_ok() && to.flush().await.is_ok()
                    }
                    None => true,
                };
                if !is_passed {
                    to = None;
                }
            }
            lock(&kept)[place].lines.finish();
        }));
    }

    /// Waits for output. Cancel safe.
    async fn changed(&self) {
        self.news.notified().await;
    }

    /// Returns the last line of stdout or, if there is none, of stderr.
    fn last(&self) -> Option<String> {
        let kept = lock(&self.kept);
        let [out, err] = &*kept;
        out.lines.last().or(err.lines.last()).map(str::to_string)
    }

    /// Waits for the end of both, and returns their last lines and what stdout had.
    async fn finish(self) -> (Vec<String>, Vec<u8>) {
        for mut reader in self.readers {
            if timeout(LEFT_OPEN_MAX, &mut reader).await.is_err() {
                reader.abort();
            }
        }
        let kept = lock(&self.kept);
        let [out, err] = &*kept;
        let chosen = if err.lines.last().is_some() { err } else { out };
        (chosen.lines.all().map(str::to_string).collect(), out.bytes.clone())
    }
}

fn lock(streams: &Mutex<[Stream; 2]>) -> std::sync::MutexGuard<'_, [Stream; 2]> {
    // It is consistent at any point.
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

//! `bellwether keeper`: starts the command of an operation, and ends it before the lease ends,
//! whatever happens to the runner.
//!
//! ```text
//!  runner --renewed, end, kill--> keeper --SIGTERM, SIGKILL--> starter --exec--> command
//!         <--started, ended------   a session of its own,       ends with the keeper,
//!                                   parent of orphans           leads a group of its own
//! ```
//!
//! The runner starts it. It has a session of its own, so that what stops or starves the runner
//! does not reach it. The command dies with it: the starter asks the kernel for that before it
//! becomes the command.

pub mod boot_clock;
pub mod deadline;
pub mod message;
pub mod tree;

use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::cli::command::run::keeper::boot_clock::{BootTimer, now};
use crate::cli::command::run::keeper::deadline::{Lease, Plan, Step};
use crate::cli::command::run::keeper::message::{FromKeeper, Inbox, ToKeeper, send};
use crate::cli::exit::Exit;

/// The time between two looks at the processes of the command, near its end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// End a command before a lease does; `bellwether run` starts it
#[derive(clap::Args)]
pub struct Args {
    /// The length of the lease, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    lease: u64,
    /// The time between SIGTERM and SIGKILL, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    grace: u64,
    /// When the lease was renewed, in nanoseconds of the clock since the boot
    #[arg(long, value_name = "N", default_value_t = 0)]
    renewed: u64,
    /// The process of the keeper: become the command, and end with that process
    #[arg(long, value_name = "PID")]
    start_for: Option<i32>,
    /// The command
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Keeps the command until its last process has ended.
///
/// # Errors
/// If the command cannot be started, or the lease has nearly ended before.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(keeper) = args.start_for {
        return start(keeper, &args.command);
    }
    rustix::process::setsid().context("the keeper has no session of its own")?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(keep(args))?;
    Ok(Exit::Ok)
}

/// Becomes the command.
fn start(keeper: i32, command: &[String]) -> anyhow::Result<Exit> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The keeper may have ended before the kernel was asked.
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    anyhow::ensure!(parent == keeper, "the keeper has ended");
    let [program, arguments @ ..] = command else { anyhow::bail!("there is no command") };
    let error = std::process::Command::new(program).args(arguments).exec();
    crate::cli::context::say(&format!("error: cannot run `{program}`: {error}"));
    Ok(Exit::OfCommand(match error.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    }))
}

async fn keep(args: &Args) -> anyhow::Result<()> {
    // A stop of the whole service reaches the runner too, which decides.
    let _deaf = deaf()?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    let (from, mut to) = UnixStream::from_std(socket)?.into_split();
    let lease = Lease::of_millis(args.lease, args.grace);
    let mut kept = KeptGroup {
        plan: Plan::new(lease, Duration::from_nanos(args.renewed)),
        child: None,
        ended: None,
        is_killed: false,
    };
    anyhow::ensure!(kept.plan.due(now()).is_none(), "the lease has nearly ended: nothing is run");
    let child = spawn(&args.command)?;
    let id = child.id().context("the command has ended at once")?.cast_signed();
    let group = Pid::from_raw(id).context("the command has no process")?;
    kept.child = Some((child, group));
    drop_output()?;
    // A runner that is gone is noticed by the inbox.
    let _ = send(&mut to, FromKeeper::Started(id).encode()).await;
    let status = kept.serve(Inbox::new(from)).await?;
    let _ = send(&mut to, FromKeeper::Ended(code_of(status)).encode()).await;
    Ok(())
}

/// Takes the signals that would end this process.
fn deaf() -> std::io::Result<[unix::Signal; 4]> {
    Ok([
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
        signal(SignalKind::quit())?,
    ])
}

fn spawn(command: &[String]) -> std::io::Result<Child> {
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    Command::new("/proc/self/exe")
        .args(["keeper", "--start-for", &own, "--"])
        .args(command)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Gives up the output, which is the command's: a reader waits for its end.
fn drop_output() -> anyhow::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Returns the exit code, or the number of the signal as a negative one.
fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -status.signal().unwrap_or_default())
}

/// The command and the plan of its end.
struct KeptGroup {
    plan: Plan,
    child: Option<(Child, Pid)>,
    ended: Option<ExitStatus>,
    is_killed: bool,
}

impl KeptGroup {
    /// Follows the plan until no process of the command is left.
    async fn serve(&mut self, mut inbox: Inbox) -> anyhow::Result<ExitStatus> {
        let timer = BootTimer::new()?;
        let mut is_fed = true;
        loop {
            match self.plan.due(now()) {
                Some(Step::Term) => self.signal(Signal::TERM),
                Some(Step::Kill) => {
                    self.is_killed = true;
                    self.signal(Signal::KILL);
                }
                None => {}
            }
            if let Some(status) = self.over() {
                return Ok(status);
            }
            timer.set(self.plan.next())?;
            let is_near_end = self.is_killed || self.ended.is_some();
            tokio::select! {
                message = inbox.next(), if is_fed => match message.and_then(ToKeeper::decode) {
                    Some(message) => self.plan.take(message, now()),
                    None => {
                        is_fed = false;
                        self.plan.take(ToKeeper::End, now());
                    }
                },
                status = wait(&mut self.child), if self.ended.is_none() => {
                    self.ended = Some(status?);
                }
                () = timer.fired() => {}
                () = tokio::time::sleep(LOOK_EVERY), if is_near_end => {}
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some((_, group)) = &self.child {
            // An empty group is no error.
            let _ = rustix::process::kill_process_group(*group, signal);
        }
    }

    /// Returns the status of the command if nothing of it is left. What it started in other groups
    /// ends only with a kill.
    fn over(&self) -> Option<ExitStatus> {
        if self.is_killed {
            tree::kill_all();
        }
        let status = self.ended?;
        let is_childless = tree::reap();
        let (_, group) = self.child.as_ref()?;
        let is_empty = rustix::process::test_kill_process_group(*group).is_err();
        (is_empty && (!self.is_killed || is_childless)).then_some(status)
    }
}

async fn wait(child: &mut Option<(Child, Pid)>) -> std::io::Result<ExitStatus> {
    match child {
        Some((child, _)) => child.wait().await,
        None => std::future::pending().await,
    }
}

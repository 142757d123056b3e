//! The options of commands for hooks and other short scripts: a limit on the time of the whole
//! command, and an end without an error.

use std::time::Duration;

use bellwether_client::Error;

use crate::cli::context::{Context, say};
use crate::cli::exit::Exit;
use crate::cli::{refusal, span};

// Neither struct here has a doc comment: clap would show it as the description of the command.

// Flags of the commands for hooks, before or after the word of a subcommand.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct HookArgs {
    /// How long the whole command may take, connecting included: 2s
    #[arg(long, global = true, value_name = "SPAN", value_parser = span::parse,
        help_heading = "Hook options")]
    timeout: Option<Duration>,
    /// Exit with 0 when the server refuses, is away or does not answer in time; say so on stderr
    #[arg(long, global = true, help_heading = "Hook options")]
    best_effort: bool,
}

// The arguments of a command for hooks, with these flags.
#[derive(clap::Args)]
pub struct Hooked<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    hook: HookArgs,
}

impl<A: clap::Args> Hooked<A> {
    /// Runs the command within the limits of the flags.
    ///
    /// # Errors
    /// Those of [`HookArgs::run`].
    pub async fn run<E: Into<Exit>>(
        self,
        command: impl AsyncFnOnce(A, &Context) -> anyhow::Result<E>,
        context: &Context,
    ) -> anyhow::Result<Exit> {
        self.hook.run(command(self.args, context)).await
    }
}

impl HookArgs {
    /// Runs a command within these limits.
    ///
    /// # Errors
    /// Those of the command; with `--best-effort` only those of the command line.
    pub async fn run<E: Into<Exit>>(
        self,
        command: impl Future<Output = anyhow::Result<E>>,
    ) -> anyhow::Result<Exit> {
        let limit = self.timeout.unwrap_or(Duration::MAX);
        let ended = match tokio::time::timeout(limit, command).await {
            Ok(ended) => ended.map(E::into),
            Err(_elapsed) => {
                say(&format!("error: not done within {limit:?} (--timeout)"));
                Ok(Exit::TimedOut)
            }
        };
        match ended {
            Err(error) if self.best_effort && !is_mistyped(&error) => {
                say(&format!("ignored (--best-effort): {}", refusal::sentence(&error)));
                Ok(Exit::Ok)
            }
            Ok(exit) if self.best_effort && exit != Exit::Ok => {
                say(&format!("exit code {} becomes 0 (--best-effort)", exit.code()));
                Ok(Exit::Ok)
            }
            ended => ended,
        }
    }
}

/// Whether the command line is wrong. A value that the server refuses is none of it: a text that is
/// too long must not fail a hook.
fn is_mistyped(error: &anyhow::Error) -> bool {
    let is_refused = matches!(error.downcast_ref::<Error>(), Some(Error::Refused(_)));
    Exit::of(error) == Exit::Usage && !is_refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::UsageError;
    use bellwether_client::Refusal;

    #[tokio::test(start_paused = true)]
    async fn a_command_ends_in_time_and_without_an_error_if_asked() {
        let within = |best_effort| HookArgs { timeout: Some(Duration::from_secs(2)), best_effort };
        let never = || std::future::pending::<anyhow::Result<Exit>>();
        assert_eq!(within(false).run(never()).await.unwrap(), Exit::TimedOut);
        assert_eq!(within(true).run(never()).await.unwrap(), Exit::Ok);
        let fails = async || -> anyhow::Result<Exit> { anyhow::bail!("the server is away") };
        assert!(within(false).run(fails()).await.is_err());
        assert_eq!(within(true).run(fails()).await.unwrap(), Exit::Ok);
        let mistyped =
            async || -> anyhow::Result<Exit> { Err(UsageError("no unit".into()).into()) };
        assert!(within(true).run(mistyped()).await.is_err());
        let too_long = async || -> anyhow::Result<Exit> {
            let refusal = Refusal::from(tonic::Status::invalid_argument("is too long"));
            Err(Error::Refused(Box::new(refusal)).into())
        };
        assert_eq!(within(true).run(too_long()).await.unwrap(), Exit::Ok);
        let exit = Exit::of(&within(false).run(too_long()).await.unwrap_err());
        assert_eq!(exit, Exit::Usage);
    }
}

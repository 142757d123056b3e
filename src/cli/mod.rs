//! The command line: one file a command, `render` for how answers look.
//!
//! Data goes to stdout, everything said to the person to stderr. `exit` has the exit codes.

mod clear;
mod completion;
mod configure;
mod configure_damping;
mod context;
mod data;
mod delete;
mod doctor;
mod error;
mod evidence;
mod exit;
mod explain_error;
mod json;
mod juju;
mod leader;
mod level;
mod log;
mod natural;
mod ops;
mod outage;
mod remove;
mod render;
mod report;
mod resolve;
mod serve;
mod span;
mod status;
mod target;
mod wait;
mod watch;
mod why;

use std::process::ExitCode;

use clap::Parser;
use clap::Subcommand;

use crate::bench;
use crate::cli::context::Color;
use crate::cli::context::Context;
use crate::cli::context::Output;
use crate::cli::context::say;
use crate::cli::exit::EXIT_CODES;
use crate::cli::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  bellwether report web/0 --level blocked -m \"add a database\" --action \"juju integrate web db\"
  bellwether status
  bellwether why web
  bellwether wait --for=active web --timeout 5m
  juju status --format json | bellwether import juju";

/// How is this application, and why?
#[derive(Parser)]
#[command(name = "bellwether", version, propagate_version = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    /// Where the server is
    #[arg(long, global = true, value_name = "URL", env = "BELLWETHER_SERVER")]
    #[arg(default_value = "http://127.0.0.1:50051", help_heading = "Global options")]
    server: String,

    /// Namespace [default: the model inside a Juju hook, else `default`]
    #[arg(short, long, global = true, env = "BELLWETHER_NAMESPACE")]
    #[arg(help_heading = "Global options")]
    namespace: Option<String>,

    /// How to print data
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Table)]
    #[arg(help_heading = "Global options")]
    output: Output,

    /// When to colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    #[arg(help_heading = "Global options")]
    color: Color,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
    ExplainError(explain_error::Args),
    #[command(flatten)]
    Client(ClientCommand),
}

/// The commands that ask a server.
#[derive(Subcommand)]
enum ClientCommand {
    Status(status::Args),
    Why(why::Args),
    Report(report::Args),
    Clear(clear::Args),
    Error(error::Args),
    Resolve(resolve::Args),
    Watch(watch::Args),
    Wait(wait::Args),
    Log(log::Args),
    Remove(remove::Args),
    Delete(delete::Args),
    Leader(leader::Args),
    Data(data::Args),
    Configure(configure::Args),
    Ops(ops::Args),
    Import(juju::Import),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Completion(completion::Args),
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    anstream::ColorChoice::write_global(cli.color.into());
    let context = Context {
        server: cli.server,
        namespace: cli.namespace.filter(|name| !name.is_empty()),
        output: cli.output,
    };
    let ended = match cli.command {
        // It ends in its own way, and on a runtime of its own.
        Command::Serve(args) => serve::run(args),
        Command::ExplainError(args) => explain_error::run(args, &context),
        Command::Client(command) => run_client(command, &context),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) if Exit::is_broken_pipe(&error) => Exit::Ok.into(),
        Err(error) => {
            say(&format!("error: {error:#}"));
            Exit::of(&error).into()
        }
    }
}

fn run_client(command: ClientCommand, context: &Context) -> anyhow::Result<Exit> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| {
            let result = runtime.block_on(until_interrupted(command, context));
            // A read of stdin cannot be cancelled; it must not hold up the end.
            runtime.shutdown_background();
            result
        })
}

async fn until_interrupted(command: ClientCommand, context: &Context) -> anyhow::Result<Exit> {
    tokio::select! {
        result = dispatch(command, context) => result,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn dispatch(command: ClientCommand, context: &Context) -> anyhow::Result<Exit> {
    match command {
        ClientCommand::Status(args) => status::run(args, context).await,
        ClientCommand::Why(args) => why::run(args, context).await,
        ClientCommand::Report(args) => report::run(args, context).await,
        ClientCommand::Clear(args) => clear::run(args, context).await,
        ClientCommand::Error(args) => error::run(args, context).await,
        ClientCommand::Resolve(args) => resolve::run(args, context).await,
        ClientCommand::Watch(args) => watch::run(args, context).await,
        ClientCommand::Wait(args) => wait::run(args, context).await,
        ClientCommand::Log(args) => log::run(args, context).await,
        ClientCommand::Remove(args) => remove::run(args, context).await,
        ClientCommand::Delete(args) => delete::run(args, context).await,
        ClientCommand::Leader(args) => leader::run(args, context).await,
        ClientCommand::Data(args) => data::run(args, context).await,
        ClientCommand::Configure(args) => configure::run(args, context).await,
        ClientCommand::Ops(args) => ops::run(args, context).await,
        ClientCommand::Import(import) => juju::run(import, context).await,
        ClientCommand::Doctor(args) => doctor::run(args, context).await,
        ClientCommand::Bench(args) => bench::run(args).await.map(|()| Exit::Ok),
        ClientCommand::Completion(args) => completion::run::<Cli>(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_lines_of_the_manual_parse() {
        for line in [
            "bellwether status",
            "bellwether status web web/0 blocked -A --exit-status -o wide",
            "bellwether why web --server http://h:1",
            "bellwether report web/0 --level blocked -m busy --action act --ttl 90s --label a=b",
            "bellwether report --level active",
            "bellwether report web-7f9c --application web --level active --priority -3",
            "bellwether clear web/0 --component database",
            "bellwether -n prod watch web db",
            "bellwether error web/0 --component db --target pg:5432 --system grpc \
             --code UNAVAILABLE --origin transport --outcome not_applied -m away",
            "bellwether error web/0 --system http --code 429 --retry-after 2s --quota",
            "bellwether explain-error --system http --code 409 --user-input=false -o json",
            "bellwether resolve web/0 --component db --target pg:5432",
            "bellwether resolve web/0 --component db --skip --reason drill",
            "bellwether wait --for=active web --timeout 10m --stable-for 5s",
            "bellwether wait web --fail-on error,blocked",
            "bellwether wait web db --any",
            "bellwether log web/0 -n 20 --since 2h",
            "bellwether -n prod log web --limit 5",
            "bellwether remove web/0",
            "bellwether delete web",
            "bellwether configure web --policy strict --lost-units ignore --default-ttl none",
            "bellwether import juju - --color never",
            "bellwether -n prod import juju --every 30s -- juju status --format json",
            "bellwether doctor --store redis://h --durability replicated:1 --timeout 2s -o json",
            "bellwether ops list web",
            "bellwether -n prod ops show web up-v2 -o json",
            "bellwether ops retry web up-v2",
            "bellwether ops cancel web up-v2",
            "bellwether ops supersede web up-v2 --with up-v3 --to v3 --reason bad --payload f",
            "bellwether completion bash",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "bellwether",
            "bellwether wait --for=active",
            "bellwether wait web --any --all",
            "bellwether report web/0",
            "bellwether report web/0 --level busy",
            "bellwether ops supersede web up-v2 --with up-v3 --to v3",
            "bellwether import juju --every 30s",
            "bellwether import juju file -- juju status",
            "bellwether status --watch --exit-status",
            "bellwether resolve web/0 --retry --skip",
            "bellwether error web/0 --code 503",
            "bellwether explain-error --system http --origin everybody",
        ] {
            let error = parse(line).err().map(|e| e.kind());
            assert!(error.is_some_and(|kind| kind != ErrorKind::DisplayHelp), "{line}");
        }
    }

    #[test]
    fn in_log_the_short_n_counts() {
        let cli = parse("bellwether -n prod log web -n 5").expect("parses");
        assert_eq!(cli.namespace.as_deref(), Some("prod"));
        let Command::Client(ClientCommand::Log(args)) = cli.command else {
            panic!("not log");
        };
        assert_eq!(args.limit, 5);
    }
}

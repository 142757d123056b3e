//! The command line. `command` has a file for each command that calls a server; `serve` has those
//! that run or examine one. The other files help both; `render` formats answers.
//!
//! Data goes to stdout, messages for the person to stderr. `exit` has the exit codes.

mod command;
mod completion;
mod context;
mod contexts;
mod evidence;
mod exit;
mod explanation;
mod file;
mod groups;
mod hook;
mod incarnation;
mod json;
mod juju_hook;
mod level;
mod mistake;
mod names;
mod needs;
mod outage;
mod output;
mod parallel;
mod private_file;
#[cfg(test)]
mod reference;
mod refusal;
mod render;
pub mod scrape;
mod security;
mod serve;
mod span;
mod suggest;
mod target;
mod unit;
mod variables;

#[cfg(any(test, feature = "testing"))]
pub use command::import::read_and_plan as import_juju;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use bellwether_client::Client;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use opentelemetry::context::FutureExt;

use crate::cli::context::{Color, Context, say, say_lines};
use crate::cli::exit::{EXIT_CODES, Exit};
use crate::cli::hook::Hooked;
use crate::cli::output::Output;
use crate::telemetry::CallerTrace;
use command::{
    app_status, attend, blockers, callback, check, clear, configure, data, delete, error, explain,
    explain_error, faults, health, import, leader, log, man, mark, namespaces, notify, ops,
    register, remove, replace, report, resolve, run, status, stopping, uptime, version, wait,
    watch, why,
};
use serve::{backup, config, doctor, relay, token};

/// How is this application, and why?
#[derive(Parser)]
#[command(name = "bellwether", version, propagate_version = true)]
#[command(after_help = format!("{}\n\n{EXIT_CODES}", groups::examples()))]
#[command(arg_required_else_help = true)]
#[command(help_template = groups::template())]
#[command(next_help_heading = "Global options")]
struct Cli {
    /// URL of the server [default: that of the context, else http://127.0.0.1:50051]
    #[arg(long, global = true, value_name = "URL", env = "BELLWETHER_SERVER")]
    server: Option<String>,

    /// A context saved by `bellwether context set` [default: the current one, without --server]
    #[arg(long, global = true, value_name = "NAME", env = "BELLWETHER_CONTEXT")]
    #[arg(add = contexts::names())]
    context: Option<String>,

    /// Namespace [default: the model inside a Juju hook, else `default`]
    #[arg(short, long, global = true, env = "BELLWETHER_NAMESPACE")]
    #[arg(add = completion::namespaces())]
    namespace: Option<String>,

    #[command(flatten)]
    security: security::SecurityArgs,

    /// How to print data
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    output: Option<Output>,

    /// How long to wait for the answer to a call
    #[arg(long, global = true, value_name = "SPAN", value_parser = request_timeout)]
    #[arg(env = "BELLWETHER_REQUEST_TIMEOUT", default_value = "5s")]
    request_timeout: Duration,

    /// When to colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
    Relay(relay::Args),
    Backup(backup::Args),
    #[command(flatten)]
    Client(ClientCommand),
    #[command(subcommand)]
    Config(config::Action),
    Explain(explain::Args),
    ExplainError(explain_error::Args),
    #[command(subcommand)]
    Token(token::Action),
    #[command(subcommand)]
    Context(contexts::Action),
    Completion(completion::Args),
    Man(man::Args),
    #[command(hide = true)]
    Keeper(run::keeper::Args),
}

/// The commands that call a server.
#[derive(Subcommand)]
enum ClientCommand {
    #[command(visible_aliases = ["get", "ls"])]
    Status(status::Args),
    Why(why::Args),
    Uptime(uptime::Args),
    Blockers(blockers::Args),
    Ack(mark::ack::Args),
    Plan(mark::plan::Args),
    Unmark(mark::unmark::Args),
    Marks(mark::list::Args),
    Namespaces(namespaces::Args),
    Faults(faults::Args),
    Report(Hooked<report::Args>),
    Replace(Hooked<replace::Args>),
    Clear(Hooked<clear::Args>),
    Error(Hooked<error::Args>),
    Resolve(Hooked<resolve::Args>),
    Watch(watch::Args),
    Wait(wait::Args),
    Check(check::Args),
    Health(health::Args),
    Version(version::Args),
    Log(log::Args),
    Register(Hooked<register::Args>),
    Stopping(Hooked<stopping::Args>),
    Attend(attend::Args),
    Run(run::Args),
    Notify(notify::Args),
    Callback(Hooked<callback::Args>),
    AppStatus(Hooked<app_status::Args>),
    Remove(remove::Args),
    Delete(delete::Args),
    Leader(Hooked<leader::Args>),
    Data(Hooked<data::Args>),
    Configure(configure::Args),
    #[command(subcommand, visible_alias = "op")]
    Ops(ops::Command),
    #[command(subcommand)]
    Import(import::Source),
    Doctor(doctor::Args),
}

/// The longest deadline of a call: the header on the wire has a limited number of digits.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

fn request_timeout(text: &str) -> Result<Duration, String> {
    let timeout = span::parse(text)?;
    match !timeout.is_zero() && timeout < REQUEST_TIMEOUT_MAX {
        true => Ok(timeout),
        false => Err("write a span longer than nothing and shorter than a day, as 5s".to_string()),
    }
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    match completion::answered(Cli::command) {
        Ok(true) => return Exit::Ok.into(),
        Ok(false) => {}
        Err(_) => return Exit::Failed.into(),
    }
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refused(&mistake::explained(error, Cli::command(), &line())),
    };
    anstream::ColorChoice::write_global(cli.color.into());
    let given_text = |text: Option<String>| text.filter(|text| !text.is_empty());
    let given = contexts::Given {
        context: given_text(cli.context),
        server: given_text(cli.server),
        namespace: given_text(cli.namespace),
        security: cli.security.into(),
    };
    let settings = |given: contexts::Given| given.settings(cli.output, cli.request_timeout);
    // A command that calls no server works without the file of the contexts.
    let context = settings(given.clone());
    let ended = match cli.command {
        // `serve` handles its own errors and creates its own runtime.
        Command::Serve(args) => serve::run(args, &warnings()),
        Command::Relay(args) => relay::run(args, given.security.clone(), &warnings()),
        Command::Backup(args) => backup::run(args, &context).map(Exit::from),
        Command::Config(action) => {
            let given = matches.subcommand_matches("config").unwrap_or(&matches);
            config::run(action, given, &warnings(), &context).map(Exit::from)
        }
        Command::ExplainError(args) => explain_error::run(args, &context).map(Exit::from),
        Command::Explain(args) => explain::run(&args, &context).map(Exit::from),
        Command::Token(action) => token::run(action, &context).map(Exit::from),
        Command::Context(action) => contexts::run(action, &given, &context).map(Exit::from),
        Command::Completion(args) => completion::run(&args).map(Exit::from),
        Command::Man(args) => man::run::<Cli>(&args).map(Exit::from),
        Command::Keeper(args) => run::keeper::run(&args),
        Command::Client(command) => {
            let name = matches.subcommand_name().unwrap_or_default();
            given.with_context().and_then(|chosen| run_traced(name, command, &settings(chosen)))
        }
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) if Exit::is_broken_pipe(&error) => Exit::Ok.into(),
        Err(error) => {
            say(&format!("error: {}", refusal::sentence(&error)));
            Exit::of(&error).into()
        }
    }
}

/// Returns a sentence for each environment variable that has no effect.
fn warnings() -> Vec<String> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    variables::without_effect(&Cli::command(), variables)
}

/// Returns the words of the command line.
fn line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Prints help, the version, or the mistake in a command line. The message repeats words of the
/// line, so control characters are removed first.
fn refused(error: &clap::Error) -> ExitCode {
    // A server set by a variable counts as an argument, so clap itself would print no help.
    if error.kind() == ErrorKind::MissingSubcommand {
        say_lines(mistake::help(Cli::command(), &line()).trim_end());
        return Exit::Usage.into();
    }
    let text = error.render().to_string();
    // Text rendered without colours has lost the escape sequences of the line too.
    let is_own = |name: &OsString| name.to_string_lossy().starts_with("BELLWETHER_");
    let variables = std::env::vars_os().filter(|(name, _)| is_own(name)).map(|(_, value)| value);
    let mut given = std::env::args_os().chain(variables);
    let has_unsafe = |text: OsString| text.to_string_lossy().chars().any(render::text::is_unsafe);
    if given.any(has_unsafe) {
        say_lines(text.trim_end())
    } else {
        drop(error.print())
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// Runs a command in a trace, which its calls continue.
fn run_traced(name: &str, command: ClientCommand, context: &Context) -> anyhow::Result<Exit> {
    let trace = CallerTrace::begin(name, env!("CARGO_PKG_VERSION"));
    let result = run_client(command, context, trace.context());
    trace.end(match &result {
        Ok(exit) => exit.code(),
        Err(error) => Exit::of(error).code(),
    });
    result
}

fn run_client(
    command: ClientCommand,
    context: &Context,
    trace: opentelemetry::Context,
) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers = matches!(&command, ClientCommand::Run(args) if args.answers_interrupts());
    let running = async {
        tokio::select! {
            result = dispatch_or_suggest(command, context) => result,
            _ = tokio::signal::ctrl_c(), if !answers => Ok(Exit::Interrupted),
        }
    };
    let result = runtime.block_on(running.with_context(trace));
    if let Some(text) = context.client.get().and_then(age_of) {
        say(&text);
    }
    // A read of stdin cannot be cancelled; it must not delay the exit.
    runtime.shutdown_background();
    result
}

/// Returns why the last answer may be old, if it is from memory.
fn age_of(client: &Client) -> Option<String> {
    let since = client.as_of()?;
    let whom = match client.as_of_upstream() {
        Some(upstream) => format!("the relay has had no contact with {upstream}"),
        None => "the server has had no contact with its store".to_string(),
    };
    Some(format!("{whom} since {since}: the answer is from its memory"))
}

/// Runs a command. The name that a misspelt one may mean follows the error.
async fn dispatch_or_suggest(command: ClientCommand, context: &Context) -> anyhow::Result<Exit> {
    let error = match dispatch(command, context).await {
        Ok(exit) => return Ok(exit),
        Err(error) => error,
    };
    let Some(meant) = suggest::for_error(&error, context).await else { return Err(error) };
    say(&format!("error: {}{meant}", refusal::sentence(&error)));
    Ok(Exit::of(&error))
}

async fn dispatch(command: ClientCommand, context: &Context) -> anyhow::Result<Exit> {
    match command {
        ClientCommand::Status(args) => status::run(args, context).await,
        ClientCommand::Why(args) => why::run(args, context).await.map(Exit::from),
        ClientCommand::Uptime(args) => uptime::run(args, context).await.map(Exit::from),
        ClientCommand::Blockers(args) => blockers::run(args, context).await,
        ClientCommand::Ack(args) => mark::ack::run(args, context).await.map(Exit::from),
        ClientCommand::Plan(args) => mark::plan::run(args, context).await.map(Exit::from),
        ClientCommand::Unmark(args) => mark::unmark::run(args, context).await.map(Exit::from),
        ClientCommand::Marks(args) => mark::list::run(args, context).await.map(Exit::from),
        ClientCommand::Faults(args) => faults::run(args, context).await.map(Exit::from),
        ClientCommand::Namespaces(args) => namespaces::run(args, context).await.map(Exit::from),
        ClientCommand::Report(args) => args.run(report::run, context).await,
        ClientCommand::Replace(args) => args.run(replace::run, context).await,
        ClientCommand::Clear(args) => args.run(clear::run, context).await,
        ClientCommand::Error(args) => args.run(error::run, context).await,
        ClientCommand::Resolve(args) => args.run(resolve::run, context).await,
        ClientCommand::Watch(args) => watch::run(args, context).await.map(Exit::from),
        ClientCommand::Wait(args) => wait::run(args, context).await,
        ClientCommand::Check(args) => check::run(args, context).await,
        ClientCommand::Health(args) => health::run(args, context).await,
        ClientCommand::Version(args) => version::run(args, context).await.map(Exit::from),
        ClientCommand::Log(args) => log::run(args, context).await.map(Exit::from),
        ClientCommand::Register(args) => args.run(register::run, context).await,
        ClientCommand::Stopping(args) => args.run(stopping::run, context).await,
        ClientCommand::Attend(args) => attend::run(args, context).await.map(Exit::from),
        ClientCommand::Run(args) => run::run(args, context).await,
        ClientCommand::Notify(args) => notify::run(args, context).await.map(Exit::from),
        ClientCommand::Callback(args) => args.run(callback::run, context).await,
        ClientCommand::AppStatus(args) => args.run(app_status::run, context).await,
        ClientCommand::Remove(args) => remove::run(args, context).await.map(Exit::from),
        ClientCommand::Delete(args) => delete::run(args, context).await.map(Exit::from),
        ClientCommand::Leader(args) => args.run(leader::run, context).await,
        ClientCommand::Data(args) => args.run(data::run, context).await,
        ClientCommand::Configure(args) => configure::run(args, context).await.map(Exit::from),
        ClientCommand::Ops(command) => ops::run(command, context).await,
        ClientCommand::Import(source) => import::run(source, context).await,
        ClientCommand::Doctor(args) => doctor::run(args, context).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_lines_of_the_manual_parse() {
        for line in [
            "bellwether status",
            "bellwether status web web/0 blocked -A --exit-status -o wide",
            "bellwether why web --server http://h:1",
            "bellwether uptime web --since 30d --until 7d -o json",
            "bellwether blockers -A -o json",
            "bellwether -n prod blockers",
            "bellwether namespaces -o json",
            "bellwether run web/0 --every 30s --ttl 2m -- check_http -H x",
            "bellwether run --operation web --to 2 --recipe helm --input a -- helm upgrade",
            "bellwether run web/0 --resume",
            "bellwether notify --config notify.toml --test ops",
            "bellwether faults web",
            "bellwether faults -A --by-target -o json",
            "bellwether report web/0 --level waiting --needs db --needs infra/dns=active,waiting",
            "bellwether replace web/0 --needs-outside quota",
            "bellwether report web/0 --level blocked -m busy --action act --ttl 90s --label a=b",
            "bellwether report --level active",
            "bellwether report web-7f9c --application web --level active --priority -3",
            "bellwether clear web/0 --component database",
            "bellwether clear --timeout 2s --best-effort",
            "bellwether replace web/0 --component db --file set.json",
            "bellwether replace --best-effort",
            "bellwether register web/0 --ttl 6m --label zone=b --previous 3",
            "bellwether stopping web/0 --best-effort",
            "bellwether callback web/0 --after 30s --reason attaches --key volume",
            "bellwether callback --cancel --component db --best-effort",
            "bellwether attend web/0 --exec -- ./on-event --fast",
            "bellwether attend --pebble /run/pebble.socket",
            "bellwether attend web/0 --juju-exec --juju-event retry --notify-timeout 5m",
            "bellwether leader is web/0",
            "bellwether leader --timeout 1s is",
            "bellwether data set web/0 a=1 b=@f --epoch 3",
            "bellwether data set a=1",
            "bellwether data get --key a",
            "bellwether app-status set web/0 --level blocked -m act --ttl 5m --overrides",
            "bellwether app-status replace --decided-outside --file f",
            "bellwether app-status clear web/0 --epoch 3",
            "bellwether -n prod watch web db",
            "bellwether error web/0 --component db --target pg:5432 --system grpc \
             --code UNAVAILABLE --origin transport --outcome not_applied -m away",
            "bellwether error web/0 --system http --code 429 --retry-after 2s --quota",
            "bellwether explain-error --system http --code 409 --user-input=false -o json",
            "bellwether explain-error --list",
            "bellwether explain-error --list python -o json",
            "bellwether resolve web/0 --component db --target pg:5432",
            "bellwether context set prod --server https://h:1 -n prod --ca ca.pem --token-file t",
            "bellwether context use prod",
            "bellwether --context prod status",
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
            "bellwether backup /backups/today --data-dir /data --timeout 5m -o json",
            "bellwether status -o name",
            "bellwether status Active -o jsonl",
            "bellwether doctor --store redis://h --durability replicated:1 --timeout 2s -o json",
            "bellwether ops list web",
            "bellwether ops list -A -o json",
            "bellwether op begin up-v2 --to v2 --own --lease 6m",
            "bellwether op heartbeat up-v2 --unit web/0 --checkpoint 3 --progress 3/5",
            "bellwether op complete up-v2 --timeout 2s",
            "bellwether op fail up-v2 --system python --code builtins.OSError --touched",
            "bellwether -n prod ops show web up-v2 -o json",
            "bellwether ops retry web up-v2",
            "bellwether ops cancel web up-v2",
            "bellwether ops supersede web up-v2 --with up-v3 --to v3 --reason bad --payload f",
            "bellwether completion bash",
            "bellwether get --problems --sort severity",
            "bellwether ls blocked",
            "bellwether log web --follow -n 3",
            "bellwether wait web --allow-stale --request-timeout 1s",
            "bellwether health web",
            "bellwether -n prod health --all",
            "bellwether check web --nagios",
            "bellwether version --client -o json",
            "bellwether config print --data-dir d --store redis://u:p@h",
            "bellwether config check --config f",
            "bellwether explain LEASE_HELD",
            "bellwether token create web-0 --tokens f --ttl 90d",
            "bellwether token list --tokens f -o json",
            "bellwether token revoke web-0 --tokens f",
            "bellwether man --dir d",
            "bellwether watch web --exec --resume f -- cat -n",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for line in [
            "bellwether",
            "bellwether wait --for=active",
            "bellwether wait web --any --all",
            "bellwether report web/0",
            "bellwether report web/0 --level busy",
            "bellwether report web/0 --level waiting --needs db/0",
            "bellwether report web/0 --level waiting --needs db=up",
            "bellwether ops supersede web up-v2 --with up-v3 --to v3",
            "bellwether import juju --every 30s",
            "bellwether import juju file -- juju status",
            "bellwether status --watch --exit-status",
            "bellwether check web",
            "bellwether health web --all",
            "bellwether faults web -A",
            "bellwether watch web --exec",
            "bellwether watch web -- cat",
            "bellwether watch web --resume f",
            "bellwether notify --config f --check --test ops",
            "bellwether resolve web/0 --retry --skip",
            "bellwether error web/0 --code 503",
            "bellwether explain-error --system http --origin everybody",
            "bellwether explain-error --list http --system http",
            "bellwether callback web/0",
            "bellwether callback web/0 --after 30s --cancel",
            "bellwether callback web/0 --cancel --reason late",
            "bellwether run web/0 --operation web/0 --to 2 -- true",
        ] {
            let error = parse(line).err().map(|e| e.kind());
            assert!(error.is_some_and(|kind| kind != ErrorKind::DisplayHelp), "{line}");
        }
    }

    #[test]
    fn the_short_flag_of_log_is_the_count() {
        let cli = parse("bellwether -n prod log web -n 5").expect("parses");
        assert_eq!(cli.namespace.as_deref(), Some("prod"));
        let Command::Client(ClientCommand::Log(args)) = cli.command else {
            panic!("not log");
        };
        assert_eq!(args.limit, 5);
    }
}

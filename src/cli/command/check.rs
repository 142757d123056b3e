//! `bellwether check --nagios`: prints one line and exits with the code of a monitoring plugin.

use crate::cli::command::status::verdict;
use crate::cli::context::{Context, print_plain};
use crate::cli::exit::Exit;
use crate::cli::render::status::application_message;
use crate::cli::render::text::marked;
use crate::cli::{level, refusal, suggest};
use crate::proto::v1::Application;
use crate::service::severity::{Silence, level_of};

/// Check an application for Nagios: one line, and 0 ok, 1 warning, 2 critical or 3 unknown
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
    /// Output for Nagios, the only format so far
    #[arg(long, required = true)]
    nagios: bool,
}

/// Asks the server once. If the call fails, the line on stdout is UNKNOWN: a monitor reads nothing
/// else. The exit codes are the numbers of a plugin: 0 ok, 1 warning, 2 critical, 3 unknown.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let (exit, line) = match context.application(&args.application).await {
        Ok(application) => result(&application),
        Err(error) => {
            let error = error.into();
            let meant = suggest::for_error(&error, context).await.unwrap_or_default();
            (Exit::NotFound, format!("UNKNOWN - {}{meant}", refusal::sentence(&error)))
        }
    };
    // A monitor reads text after a bar as performance data.
    print_plain(&format!("{}\n", line.replace('\n', " ")))?;
    Ok(exit)
}

fn result(application: &Application) -> (Exit, String) {
    let (exit, word) = match verdict::of_application(application) {
        Exit::Blocked | Exit::Error => (Exit::Usage, "CRITICAL"),
        Exit::Busy => (Exit::Failed, "WARNING"),
        Exit::Ok => (Exit::Ok, "OK"),
        _ => (Exit::NotFound, "UNKNOWN"),
    };
    let message = marked(": ", &application_message(application, None).replace('|', "/"));
    let silent = Silence::of(application);
    let line = format!(
        "{word} - {} {}{message} | units={} stale={} lost={}",
        application.name,
        level::word(level_of(application).into()),
        application.unit_count,
        silent.stale,
        silent.lost,
    );
    (exit, line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{AggregatedStatus, Level};

    #[test]
    fn each_level_has_its_word_and_code() {
        use Level::*;
        for (level, stale, code, word) in [
            (Active, 0, 0, "OK - web active"),
            (Maintenance, 0, 1, "WARNING - web maintenance"),
            (Blocked, 1, 2, "CRITICAL - web blocked"),
            (Active, 1, 3, "UNKNOWN - web active"),
            (Unknown, 0, 3, "UNKNOWN - web unknown"),
        ] {
            let (exit, line) = result(&Application {
                name: "web".into(),
                unit_count: 2,
                status: Some(AggregatedStatus {
                    level: level.into(),
                    message: "a|b".into(),
                    stale_units: stale,
                    ..AggregatedStatus::default()
                }),
                ..Application::default()
            });
            assert_eq!(exit.code(), code, "{line}");
            assert!(line.starts_with(word), "{line}");
            assert!(line.contains(": a/b"), "{line}");
            assert!(line.ends_with(&format!(" | units=2 stale={stale} lost=0")), "{line}");
        }
    }
}

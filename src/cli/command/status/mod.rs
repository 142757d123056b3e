//! `bellwether status`: the overview.

mod filter;
mod frame;
mod gather;
mod live;
pub mod verdict;

use std::borrow::Borrow;

use bellwether_client::Client;
use jiff::Timestamp;
use serde_json::Value;

use crate::cli::command::status::filter::Filter;
use crate::cli::context::{Context, print, print_value, say, screen};
use crate::cli::exit::Exit;
use crate::cli::output::Output;
use crate::cli::render::status::{ApplicationView, View};
use crate::cli::target::Target;
use crate::cli::{json, level, names, render, suggest};
use crate::service::severity;

/// Show applications and units with their levels, and what to do
#[derive(clap::Args)]
pub struct Args {
    /// Only these applications, these units, or everything at this level
    #[arg(value_name = "APP|APP/UNIT|LEVEL", add = crate::cli::completion::units())]
    filters: Vec<String>,
    /// Show all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Stay and show each change
    #[arg(short, long)]
    watch: bool,
    /// Exit with 10 to 13 unless all is active or terminated
    #[arg(long, conflicts_with = "watch")]
    exit_status: bool,
    /// Only what is silent, has open errors, or is neither active nor terminated; what is
    /// acknowledged or planned comes last
    #[arg(long)]
    problems: bool,
    /// The order of the applications
    #[arg(long, value_enum, default_value_t = Sort::Name)]
    sort: Sort,
}

/// The order of the applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// By namespace and name
    Name,
    /// The worst first, then the newest
    Severity,
}

/// The selection to show, and its format.
struct Query {
    /// The namespace for the wire: `-` for all.
    namespace: String,
    filter: Filter,
    sort: Sort,
    output: Output,
}

impl Query {
    fn view(&self, client: &Client, applications: Vec<ApplicationView>) -> View {
        let mut applications: Vec<ApplicationView> =
            applications.into_iter().filter_map(|a| self.filter.apply(a)).collect();
        self.sort(&mut applications);
        let (server, namespace) = (client.url().to_string(), self.shown_namespace());
        View { server, namespace, applications }
    }

    /// Sorts applications that are in the order of their names. Among problems, those that are
    /// acknowledged or planned come last in every order.
    fn sort<A: Borrow<ApplicationView>>(&self, applications: &mut [A]) {
        if self.sort == Sort::Severity {
            applications.sort_by(|a, b| {
                severity::compare(&a.borrow().application, &b.borrow().application)
            });
        }
        if self.filter.problems {
            applications.sort_by_key(|view| {
                let status = view.borrow().application.status.as_ref();
                status.is_some_and(|status| status.acknowledged || status.planned)
            });
        }
    }

    /// Returns the namespace of all applications shown; `None` for all namespaces.
    fn shown_namespace(&self) -> Option<String> {
        (self.namespace != "-").then(|| self.namespace.clone())
    }

    /// Whether every status is needed, or only those with an action.
    fn is_wide(&self) -> bool {
        self.output == Output::Wide
    }
}

/// Shows the overview once, or follows it.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let query = Query {
        namespace: if args.all_namespaces { "-".to_string() } else { context.namespace() },
        filter: Filter::parse(&args.filters, args.problems)?,
        sort: args.sort,
        output: context.output,
    };
    let client = context.connect().await?;
    if args.watch {
        return live::run(client, &query).await;
    }
    let names = query.filter.names().filter(|_| !args.all_namespaces);
    let applications = gather::applications(client, &query.namespace, names).await?;
    let applications = gather::views(client, applications, query.is_wide()).await?;
    let view = query.view(client, applications);
    show(&view, &query)?;
    // With `--problems`, a name that is well is left out and not missing.
    let missing = if args.problems { Vec::new() } else { query.filter.missing(&view) };
    if !missing.is_empty() {
        let known = names::names_in(client, &query.namespace).await.unwrap_or_default();
        for target in missing.iter().copied() {
            say(&absent(target, &query.namespace, &known));
        }
    }
    if view.applications.is_empty() && missing.is_empty() {
        let others = match query.filter.is_empty() && query.namespace != "-" {
            true => names::namespaces(client).await.unwrap_or_default(),
            false => Vec::new(),
        };
        say(&nothing_there(context, &query, &others));
    }
    Ok(match args.exit_status {
        _ if !missing.is_empty() => Exit::NotFound,
        // No problems is a success.
        true if args.problems && view.applications.is_empty() => Exit::Ok,
        true => verdict::of(&view),
        false => Exit::Ok,
    })
}

/// Returns a message for a name that nothing has. A misspelt level is taken for a name.
fn absent(target: &Target, namespace: &str, known: &[String]) -> String {
    let names = known.iter().map(String::as_str).chain(level::words());
    let (what, meant) = match &target.unit {
        Some(unit) => (format!("unit {unit}"), None),
        None => {
            let name = &target.application;
            (format!("application {name}"), suggest::among(name, names))
        }
    };
    format!("error: there is no {what} in namespace {namespace}{}", meant.unwrap_or_default())
}

/// Returns a message for an empty overview. `others` are namespaces that have applications.
fn nothing_there(context: &Context, query: &Query, others: &[String]) -> String {
    if query.filter.problems {
        return "no problems".to_string();
    }
    if !query.filter.is_empty() {
        return "nothing matches".to_string();
    }
    let place = match query.namespace.as_str() {
        "-" => String::new(),
        namespace => format!(" in namespace {namespace}"),
    };
    if !others.is_empty() {
        let others = others.join(", ");
        return format!(
            "there are no applications{place}, but in {others}: `bellwether status -A` shows all"
        );
    }
    let command = context.hint("report web/0 --level active");
    format!("there are no applications{place}; report the first: {command}")
}

/// Prints in the requested format. A table without rows prints nothing.
fn show(view: &View, query: &Query) -> anyhow::Result<()> {
    match query.output {
        output if output.is_structured() => print_value(&value(view)?, output),
        _ if view.applications.is_empty() => Ok(()),
        _ => {
            let text = render::status::render(view, query.is_wide(), Timestamp::now(), screen());
            Ok(print(&text)?)
        }
    }
}

/// Returns `{"applications": [...]}`, each an Application with its units as `units`.
fn value(view: &View) -> anyhow::Result<Value> {
    let value = |shown: &ApplicationView| -> anyhow::Result<Value> {
        let mut application = json::from_message(&shown.application, "Application")?;
        let units = shown.units.iter().map(|unit| json::from_message(unit, "Unit"));
        application["units"] = units.collect::<anyhow::Result<_>>()?;
        Ok(application)
    };
    let applications: Value = view.applications.iter().map(value).collect::<anyhow::Result<_>>()?;
    Ok(serde_json::json!({ "applications": applications }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Application, Unit};

    #[test]
    fn json_has_units_under_their_application() {
        let view = View {
            applications: vec![ApplicationView {
                application: Application { name: "web".into(), ..Application::default() },
                units: vec![Unit { name: "web/0".into(), level: 3, ..Unit::default() }],
                ..ApplicationView::default()
            }],
            ..View::default()
        };
        let value = value(&view).expect("json");
        assert_eq!(value["applications"][0]["name"], "web");
        assert_eq!(value["applications"][0]["units"][0]["level"], "LEVEL_ACTIVE");
    }
}

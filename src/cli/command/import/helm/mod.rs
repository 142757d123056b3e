//! `bellwether import helm`: the releases of a cluster, as `helm list -o json` prints them.
//!
//! ```text
//!  text --document--> releases --table--> ImportFacts; one that is pending for long: an operation
//! ```

mod document;
mod table;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::cli::command::import::args::Args;
use crate::cli::command::import::cluster::ClusterArgs;
use crate::cli::command::import::facts::{
    Applications, ImportFacts, Placed, SetFacts, UnitFacts, not_imported,
};
use crate::cli::command::import::format::Format;
use crate::cli::command::import::helm::document::Release;
use crate::cli::command::import::helm::table::Progress;
use crate::cli::command::import::name::taken;
use crate::cli::command::import::origin::Origin;
use crate::cli::span;
use crate::proto::v1::StatusReport;

/// Limit of a document in bytes. That of a cluster with 10,000 releases has some 2 MB.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// Without `--max`, `helm list` prints this many releases and says nothing of further ones.
const LISTED_MAX: usize = 256;

/// The release and the objects of its chart are in one application. A release that is deployed, or
/// failed, says less than its objects do among equal levels.
const LESS_SAID: i32 = -1;

/// What an import of Helm needs beside a document.
#[derive(clap::Args)]
pub struct HelmArgs {
    /// The document, and how it is imported.
    #[command(flatten)]
    pub common: Args,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// A release that is pending for longer than SPAN was cut off
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "15m")]
    pending_after: Duration,
}

/// Returns the format of `helm list -o json`.
///
/// # Errors
/// A name of a cluster that no namespace can begin with.
pub fn format(args: HelmArgs) -> anyhow::Result<(Format, Args)> {
    let HelmArgs { common, cluster, pending_after } = args;
    cluster.check()?;
    let format = Format {
        origin: Origin { source: "helm", scope: cluster.name.clone(), decides_leaders: false },
        example: "helm list -A -m 0 -o json | bellwether import helm",
        whole: "all releases of the cluster",
        bytes_max: DOCUMENT_BYTES_MAX,
        own_namespace: Some(cluster.own_namespace()),
        read: Box::new(move |text| read(text, &cluster, pending_after, Timestamp::now())),
    };
    Ok((format, common))
}

/// Reads the releases of a document as they are at a time: each is the unit `release/NAME` of the
/// application with its name.
///
/// # Errors
/// The place of a mistake, and what is expected there.
fn read(
    text: &str,
    cluster: &ClusterArgs,
    pending_after: Duration,
    now: Timestamp,
) -> anyhow::Result<ImportFacts> {
    let releases = document::read(text)?;
    let may_be_cut = releases.len() == LISTED_MAX;
    let mut namespaces: BTreeMap<String, Applications> = BTreeMap::new();
    let (mut unnamed, mut doubled, mut timeless) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for release in releases {
        let in_words = format!("{}/{}", release.namespace, release.name);
        let place = cluster.namespace(&release.namespace).zip(taken(&release.name));
        let Some((namespace, application)) = place else {
            unnamed.push(in_words);
            continue;
        };
        if !seen.insert((namespace.clone(), application.clone())) {
            doubled.push(in_words);
            continue;
        }
        let progress = Progress::of(&release, pending_after, now);
        if progress == Progress::Timeless {
            timeless.push(in_words);
        }
        let unit = unit(&application, &release, progress);
        let all = namespaces.entry(namespace).or_default();
        all.entry(application).or_default().units.push(unit);
    }
    let mut notes = Vec::new();
    notes.extend(not_imported("without a name that Bellwether can have", &unnamed));
    notes.extend(not_imported("there twice", &doubled));
    let why = "pending since a time that cannot be read, so never taken as cut off";
    notes.extend((!timeless.is_empty()).then(|| format!("{why}: {}", timeless.join(", "))));
    notes.extend(may_be_cut.then(|| {
        format!(
            "{LISTED_MAX} releases are as many as helm list prints without `-m 0`, so none is \
             removed"
        )
    }));
    let applications = Placed::Apart(namespaces);
    Ok(ImportFacts { applications, notes, may_be_cut, ..ImportFacts::default() })
}

fn unit(application: &str, release: &Release, progress: Progress) -> UnitFacts {
    let report = StatusReport {
        action: table::action(release, progress),
        check: table::decided_by(release),
        priority: if table::is_at_rest(release) { LESS_SAID } else { 0 },
        ..table::meaning(release, progress).since("", release.updated)
    };
    UnitFacts {
        name: format!("release/{application}"),
        set: SetFacts { component: None, statuses: vec![report] },
        work: table::work(application, release, progress),
    }
}

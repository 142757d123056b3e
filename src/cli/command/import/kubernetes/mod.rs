//! `bellwether import kubernetes`: the objects of a cluster, as `kubectl get -o json` prints them.
//!
//! ```text
//!  text --document--> objects --rules, health--> entries --collect--> ImportFacts
//! ```

mod collect;
mod document;
mod entry;
mod health;
mod object;
mod rules;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::cli::command::import::args::Args;
use crate::cli::command::import::cluster::ClusterArgs;
use crate::cli::command::import::facts::ImportFacts;
use crate::cli::command::import::format::Format;
use crate::cli::command::import::kubernetes::collect::{Collected, has_no_health};
use crate::cli::command::import::kubernetes::entry::ClusterObject;
use crate::cli::command::import::kubernetes::object::Object;
use crate::cli::command::import::kubernetes::rules::HealthRules;
use crate::cli::command::import::origin::Origin;

/// Limit of a document in bytes. That of a cluster with 100,000 objects has some 220 MB.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

/// What an import of Kubernetes needs beside a document.
#[derive(clap::Args)]
pub struct KubernetesArgs {
    /// The document, and how it is imported.
    #[command(flatten)]
    pub common: Args,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// File with rules in CEL for kinds of others, before those of this program
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Command that judges objects: a line of JSON in, {"status": ..., "message": ...} out
    #[arg(long, value_name = "CMD")]
    health_command: Option<String>,
}

/// Returns the format of `kubectl get -o json`.
///
/// # Errors
/// A name of a cluster that no namespace can begin with, and a file of rules with a mistake.
pub fn format(args: KubernetesArgs) -> anyhow::Result<(Format, Args)> {
    let KubernetesArgs { common, cluster, rules, health_command } = args;
    let rules = RefCell::new(HealthRules::new(rules.as_deref(), health_command)?);
    cluster.check()?;
    let format = Format {
        origin: Origin {
            source: "kubernetes",
            scope: cluster.name.clone(),
            decides_leaders: false,
        },
        example: "kubectl get deploy,sts,ds,pods,jobs,cronjobs,pvc,svc,ing,hpa,nodes -A -o json | \
                  bellwether import kubernetes",
        whole: "all objects of the cluster",
        bytes_max: DOCUMENT_BYTES_MAX,
        own_namespace: Some(cluster.own_namespace()),
        read: Box::new(move |text| {
            let rules = &mut rules.borrow_mut();
            let facts = read(text, &cluster, rules, Timestamp::now());
            rules.rest();
            facts
        }),
    };
    Ok((format, common))
}

/// Reads the objects of a document as they are at a time.
///
/// # Errors
/// The place of a mistake, and what is expected there.
fn read(
    text: &str,
    cluster: &ClusterArgs,
    rules: &mut HealthRules,
    now: Timestamp,
) -> anyhow::Result<ImportFacts> {
    let mut collected = Collected::default();
    let mut take = |value| {
        let object = Object::new(value)?;
        if has_no_health(object.kind()) {
            *collected.unshown.entry(object.kind().to_string()).or_default() += 1;
            return Ok(());
        }
        collected.entries.push(ClusterObject::of(&object, rules, now)?);
        Ok(())
    };
    document::each_object(text, &mut take)?;
    Ok(collected.facts(cluster))
}

//! The name of a cluster, which begins the names of its namespaces: several clusters may then be
//! imported into one server.

use crate::cli::command::import::name::taken;
use crate::cli::exit::UsageError;
use crate::domain::name::PartName;

/// The cluster that a document is about.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ClusterArgs {
    /// Name of the cluster: its namespaces become NAME.namespace
    #[arg(long = "cluster", value_name = "NAME")]
    pub name: Option<String>,
}

impl ClusterArgs {
    /// Checks the name.
    ///
    /// # Errors
    /// A name that no namespace can begin with.
    pub fn check(&self) -> Result<(), UsageError> {
        match &self.name {
            Some(name) if PartName::new(name).is_err() => Err(UsageError(format!(
                "--cluster needs a name of letters, digits, `-`, `_` and `.`: {name}"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the namespace of what has none; it also shows an import that fails.
    pub fn own_namespace(&self) -> String {
        self.name.clone().unwrap_or_else(|| "cluster".to_string())
    }

    /// Returns the namespace of Bellwether for one of the cluster; `None` if it cannot have the
    /// name.
    pub fn namespace(&self, namespace: &str) -> Option<String> {
        match (&self.name, namespace) {
            (_, "") => taken(&self.own_namespace()),
            (None, namespace) => taken(namespace),
            (Some(cluster), namespace) => taken(&format!("{cluster}.{namespace}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_begins_the_names_of_its_namespaces() {
        let of = |cluster: Option<&str>, namespace: &str| {
            ClusterArgs { name: cluster.map(str::to_string) }.namespace(namespace)
        };
        assert_eq!(of(None, "shop").as_deref(), Some("shop"));
        assert_eq!(of(None, "").as_deref(), Some("cluster"));
        assert_eq!(of(Some("east"), "shop").as_deref(), Some("east.shop"));
        assert_eq!(of(Some("east"), "").as_deref(), Some("east"));
        assert_eq!(of(Some("east"), &"x".repeat(300)), None);
        let wrong = ClusterArgs { name: Some("a b".to_string()) };
        assert!(wrong.check().unwrap_err().0.contains("--cluster needs a name"));
    }
}

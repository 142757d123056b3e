//! Names: a unit of systemd becomes a status of its host, in an application.

use crate::cli::command::import::name::taken;

/// Where the status of a unit of systemd belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name without type and instance: `web` of `web@3.service`.
    pub application: String,
    /// The instance: `3`.
    pub component: String,
    /// The type, unless it is a service: `timer`.
    pub key: String,
}

impl Name {
    /// Returns the place of a unit such as `web@3.service`; `None` if nothing of its name is left,
    /// as of `-.mount`.
    pub fn of(id: &str) -> Option<Name> {
        let (stem, kind) = id.rsplit_once('.').unwrap_or((id, "service"));
        let (application, instance) = stem.split_once('@').unwrap_or((stem, ""));
        let application = taken(application)?;
        let component = if instance.is_empty() { String::new() } else { taken(instance)? };
        let key = if kind == "service" { String::new() } else { taken(kind)? };
        Some(Name { application, component, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str) -> Option<(String, String, String)> {
        Name::of(id).map(|name| (name.application, name.component, name.key))
    }

    #[test]
    fn an_instance_is_a_component_and_a_type_a_key() {
        let name = |a: &str, c: &str, k: &str| Some((a.into(), c.into(), k.into()));
        assert_eq!(of("web.service"), name("web", "", ""));
        assert_eq!(of("web@3.service"), name("web", "3", ""));
        assert_eq!(of("backup.timer"), name("backup", "", "timer"));
        assert_eq!(of("org.example.Name.service"), name("org.example.Name", "", ""));
        let escaped = r"systemd-fsck@dev-disk-by\x2duuid-1:2.service";
        assert_eq!(of(escaped), name("systemd-fsck", "dev-disk-by-x2duuid-1-2", ""));
        for none in ["-.mount", "-.slice", "@.service", ""] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(of(&"x".repeat(300)), None);
    }
}

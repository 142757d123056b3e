//! The digest of what a page was rendered from, as bookmarks of the watch have it. The script
//! compares it with that of its own copy.

use super::view;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::proto::v1;
use crate::service::convert::from_level;
use crate::watch::{Digest, mark};

/// Returns the digest of these applications.
pub fn of(apps: &[v1::Application]) -> String {
    let mut digest = Digest::default();
    for app in apps {
        if let Ok(name) = AppName::new(&app.namespace, &app.name) {
            digest.add(mark(&name, Revision(app.revision), from_level(view::level(app))));
        }
    }
    format!("{:016x}", digest.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_digest_that_bookmarks_have() {
        let app = |name: &str, revision, level: v1::Level| v1::Application {
            namespace: "default".into(),
            name: name.into(),
            revision,
            status: Some(v1::AggregatedStatus { level: level as i32, ..Default::default() }),
            ..v1::Application::default()
        };
        let apps = [app("db", 3, v1::Level::Active), app("web", 12, v1::Level::Blocked)];
        // Computed by an independent program, as in `watch::digest`.
        assert_eq!(of(&apps), "ad63bd5a9247cb0c");
        assert_eq!(of(&[]), "0000000000000000");
    }
}

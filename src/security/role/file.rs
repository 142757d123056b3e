//! The file with the grants, in TOML.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::pattern::Template;
use super::{Grant, Grants, Pattern, Role};
use crate::security::Error;
use crate::security::closing::Closing;
use crate::security::identity::Principal;
use crate::security::reload::{FileSet, text};

/// The file with the grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleFile(pub PathBuf);

/// All grants, by the principals that they are for.
#[derive(Debug, Default)]
pub struct Roles {
    entries: Vec<Grant<Template>>,
    /// Places in `entries`.
    by_name: HashMap<String, Vec<usize>>,
    /// Starts of the names of principals, with places in `entries`.
    by_start: Vec<(String, usize)>,
    /// Whether the file has the table that closes it.
    is_closed: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    grant: Vec<FileGrant>,
    end: Option<Closing>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGrant {
    role: String,
    to: Vec<String>,
    namespace: String,
    application: String,
    unit: Option<String>,
    #[serde(default)]
    data: bool,
}

impl FileSet for RoleFile {
    type Value = Roles;
    const NAME: &'static str = "roles";

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.0.clone()]
    }

    fn parse(&self, contents: &[Vec<u8>]) -> Result<Roles, Error> {
        let roles = Roles::parse(text(&self.0, contents)?);
        roles.map_err(|problem| Error::invalid(&self.0, problem))
    }

    fn may_follow(&self, before: &Roles, later: &Roles) -> Result<(), Error> {
        let kept = Closing::check_kept(before.is_closed, later.is_closed);
        kept.map_err(|problem| Error::invalid(&self.0, problem))
    }
}

impl Roles {
    /// Reads the text of a file. A file without a grant is refused: a file that is cut off while it
    /// is written must not take the rights of every caller.
    ///
    /// # Errors
    /// If the text is invalid.
    pub fn parse(text: &str) -> Result<Roles, String> {
        let file: File = toml::from_str(text).map_err(|error| error.message().to_string())?;
        if file.grant.is_empty() {
            return Err("it has no [[grant]], so every call would be refused".to_string());
        }
        let is_closed = Closing::check(file.end, file.grant.len())?;
        let mut roles = Roles { is_closed, ..Roles::default() };
        for (at, grant) in file.grant.into_iter().enumerate() {
            roles.add(grant).map_err(|problem| format!("grant {}: {problem}", at + 1))?;
        }
        Ok(roles)
    }

    fn add(&mut self, grant: FileGrant) -> Result<(), String> {
        let FileGrant { role, to, namespace, application, unit, data } = grant;
        let known = Role::WORDS.into_iter().find(|(word, _)| *word == role);
        let (_, role) =
            known.ok_or_else(|| format!("role {role:?} is none of worker, reader, operator"))?;
        let unit = match (role, unit) {
            (Role::Worker, Some(unit)) => Template::read(&unit)?,
            (Role::Worker, None) => return Err("a worker needs a unit; * for all".to_string()),
            (_, Some(_)) => return Err("only a worker has a unit".to_string()),
            (_, None) => Template::Fixed(Pattern::Any),
        };
        if data && role != Role::Reader {
            return Err("data is for readers; workers and operators read it anyway".to_string());
        }
        if to.is_empty() {
            return Err("`to` names no principal".to_string());
        }
        let place = self.entries.len();
        for principal in to {
            self.name(principal, place)?;
        }
        let namespace = Template::read(&namespace)?;
        let application = Template::read(&application)?;
        self.entries.push(Grant { role, namespace, application, unit, data });
        Ok(())
    }

    fn name(&mut self, principal: String, place: usize) -> Result<(), String> {
        let start = principal.strip_suffix('*');
        let name = start.unwrap_or(&principal);
        let has_kind = ["token:", "uri:", "dns:", "jwt:"].iter().any(|k| name.starts_with(k));
        if name.contains('*') || !(has_kind || principal == "*") {
            return Err(format!(
                "{principal:?} is no principal: token:ID, uri:URI, dns:NAME or jwt:ISSUER:SUBJECT, \
                 with `*` at the end for any rest"
            ));
        }
        match start {
            Some(start) => self.by_start.push((start.to_string(), place)),
            None => self.by_name.entry(principal).or_default().push(place),
        }
        Ok(())
    }

    /// Returns the grants to a principal. A grant that names a fact which the principal lacks is
    /// left out.
    pub fn of(&self, principal: &Principal) -> Grants {
        let name = principal.to_string();
        let exact = self.by_name.get(&name).into_iter().flatten().copied();
        let by_start = self.by_start.iter().filter(|(start, _)| name.starts_with(start.as_str()));
        let places = exact.chain(by_start.map(|(_, place)| *place));
        let fill = |place: usize| {
            let Grant { role, namespace, application, unit, data } = self.entries.get(place)?;
            Some(Grant {
                role: *role,
                namespace: namespace.fill(&principal.facts)?,
                application: application.fill(&principal.facts)?,
                unit: unit.fill(&principal.facts)?,
                data: *data,
            })
        };
        Grants(places.filter_map(fill).collect())
    }
}

//! Needs: what must be so before a status can get better. They are facts about a status, as its
//! message is: no level, winner or deadline of an application depends on them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;
use crate::domain::model::name::AppName;

/// Something that must be so before a status can get better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Need {
    /// Another application at one of these levels, in wire order and each once.
    Application(AppName, Box<[Level]>),
    /// Something that is no application, in words. Equal words are one thing.
    Outside(Box<str>),
}

impl Need {
    /// Returns the need of an application at one of these levels; without any, at level active.
    pub fn application(app: AppName, mut levels: Vec<Level>) -> Need {
        if levels.is_empty() {
            levels.push(Level::Active);
        }
        levels.sort_unstable();
        levels.dedup();
        Need::Application(app, levels.into())
    }

    /// Returns the needed application; `None` for something outside.
    pub fn app(&self) -> Option<&AppName> {
        match self {
            Need::Application(app, _) => Some(app),
            Need::Outside(_) => None,
        }
    }

    /// Returns the bytes of the texts.
    pub fn size(&self) -> usize {
        match self {
            Need::Application(app, levels) => {
                app.namespace().len() + app.application().len() + levels.len()
            }
            Need::Outside(words) => words.len(),
        }
    }
}

/// The needs of a status or of a fault, in their order and each once. Shared between its copies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Needs(Option<Arc<[Need]>>);

impl Needs {
    /// Returns whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the needs.
    pub fn iter(&self) -> impl Iterator<Item = &Need> {
        self.0.iter().flat_map(|needs| needs.iter())
    }

    /// Returns the bytes of the texts.
    pub(in crate::domain) fn size(&self) -> usize {
        self.iter().map(Need::size).sum()
    }
}

impl fmt::Display for Need {
    /// Writes the need as the command line takes it: `prod/db`, `infra/dns=active,waiting`, or the
    /// words of something outside.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (app, levels) = match self {
            Need::Outside(words) => return f.write_str(words),
            Need::Application(app, levels) => (app, levels),
        };
        write!(f, "{app}")?;
        if **levels != [Level::Active] {
            let words: Vec<&str> = levels.iter().map(|level| level.word()).collect();
            write!(f, "={}", words.join(","))?;
        }
        Ok(())
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs: Vec<String> = self.iter().map(ToString::to_string).collect();
        f.write_str(&needs.join(", "))
    }
}

impl FromIterator<Need> for Needs {
    /// Collects needs; equal ones count once.
    fn from_iter<I: IntoIterator<Item = Need>>(needs: I) -> Needs {
        let mut kept: Vec<Need> = Vec::new();
        for need in needs {
            if !kept.contains(&need) {
                kept.push(need);
            }
        }
        Needs((!kept.is_empty()).then(|| kept.into()))
    }
}

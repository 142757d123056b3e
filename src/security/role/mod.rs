//! What a principal may do: grants of three roles for patterns of names. Only grants exist; what no
//! grant allows is refused.

mod file;
mod pattern;
pub mod right;

pub use file::RoleFile;
pub use pattern::Pattern;

/// A role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Acts as the units of its pattern, and reads their application.
    Worker,
    /// Reads applications, without internal details and payloads; data only if granted.
    Reader,
    /// Reads everything of an application, and changes what no worker may.
    Operator,
}

impl Role {
    /// Every role with its word in the file.
    pub const WORDS: [(&str, Role); 3] =
        [("worker", Role::Worker), ("reader", Role::Reader), ("operator", Role::Operator)];
}

/// A grant: to one principal, with its facts filled in, or as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant<P = Pattern> {
    /// The role.
    pub role: Role,
    /// The namespaces.
    pub namespace: P,
    /// The applications.
    pub application: P,
    /// The units of a worker.
    pub unit: P,
    /// Whether a reader may read the data of the applications.
    pub data: bool,
}

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need<'a> {
    /// To act as a unit of an application; the empty unit stands for any unit.
    Act(&'a str, &'a str, &'a str),
    /// To read an application.
    Read(&'a str, &'a str),
    /// To read the data, payloads and checkpoints of an application.
    Data(&'a str, &'a str),
    /// To change what no worker may, and to read internal details.
    Operate(&'a str, &'a str),
    /// To read all applications of a namespace; `None`: of all namespaces.
    List(Option<&'a str>),
}

/// All grants to one principal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(pub Vec<Grant>);

impl Grants {
    /// Returns whether a grant allows it.
    pub fn allow(&self, need: Need<'_>) -> bool {
        self.0.iter().any(|grant| grant.allows(need))
    }

    /// Returns whether a grant has one of these roles, for any application.
    pub fn have(&self, roles: &[Role]) -> bool {
        self.0.iter().any(|grant| roles.contains(&grant.role))
    }

    /// Returns whether every one of these grants is among `others`.
    pub fn are_within(&self, others: &Grants) -> bool {
        self.0.iter().all(|grant| others.0.contains(grant))
    }
}

impl Grant {
    fn allows(&self, need: Need<'_>) -> bool {
        let is_for = |namespace: &str, application: &str| {
            self.namespace.matches(namespace) && self.application.matches(application)
        };
        match need {
            Need::Act(namespace, application, unit) => {
                let is_unit = match unit {
                    "" => self.unit == Pattern::Any,
                    unit => self.unit.matches(unit),
                };
                self.role == Role::Worker && is_unit && is_for(namespace, application)
            }
            Need::Read(namespace, application) => is_for(namespace, application),
            Need::Data(namespace, application) => {
                (self.role != Role::Reader || self.data) && is_for(namespace, application)
            }
            Need::Operate(namespace, application) => {
                self.role == Role::Operator && is_for(namespace, application)
            }
            Need::List(namespace) => {
                let is_namespace = match namespace {
                    Some(namespace) => self.namespace.matches(namespace),
                    None => self.namespace == Pattern::Any,
                };
                self.role != Role::Worker && self.application == Pattern::Any && is_namespace
            }
        }
    }
}

#[cfg(test)]
mod tests;

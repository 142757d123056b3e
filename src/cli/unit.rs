//! The unit that a command is about, as its arguments name it.

use crate::cli::exit::UsageError;
use crate::cli::target::UnitTarget;

/// A unit.
#[derive(clap::Args)]
pub struct UnitArgs {
    /// The unit, as web/0
    #[arg(value_name = "APP/UNIT", add = crate::cli::completion::units())]
    unit: String,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
}

impl UnitArgs {
    /// Returns the unit that was named.
    ///
    /// # Errors
    /// If its application is unknown.
    pub fn target(&self) -> Result<UnitTarget, UsageError> {
        UnitTarget::parse(&self.unit, self.application.as_deref())
    }
}

//! The unit or the application that a command is about, as its arguments name it.

use crate::cli::exit::UsageError;
use crate::cli::juju_hook::{self, JujuHook, juju_hook};
use crate::cli::target::UnitTarget;

/// A unit.
#[derive(clap::Args)]
pub struct UnitArgs {
    /// The unit, as web/0 [default: the unit inside a Juju hook]
    #[arg(value_name = "APP/UNIT", add = crate::cli::completion::units())]
    unit: Option<String>,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
}

impl UnitArgs {
    /// Returns the unit that was named, or that of the hook that runs this process.
    ///
    /// # Errors
    /// If there is neither, or its application is unknown.
    pub fn target(&self) -> Result<UnitTarget, UsageError> {
        self.target_in(juju_hook())
    }

    /// Returns the unit that was named, or that of a hook.
    ///
    /// # Errors
    /// Those of [`UnitArgs::target`].
    pub fn target_in(&self, hook: Option<JujuHook>) -> Result<UnitTarget, UsageError> {
        juju_hook::unit(self.unit.as_deref(), self.application.as_deref(), hook)
    }
}

/// An application.
#[derive(clap::Args)]
pub struct AppArgs {
    /// The application [default: that of the unit inside a Juju hook]
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: Option<String>,
}

impl AppArgs {
    /// Returns the application that was named, also by a unit of it, or that of the hook.
    ///
    /// # Errors
    /// If there is neither.
    pub fn name(&self) -> Result<String, UsageError> {
        juju_hook::application(self.given())
    }

    /// Returns the words that were given.
    pub fn given(&self) -> Option<&str> {
        self.application.as_deref()
    }
}

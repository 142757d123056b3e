//! The flags that describe a new operation.

use std::path::PathBuf;

use crate::cli::exit::UsageError;
use crate::cli::file;
use crate::proto::v1::BeginOperationRequest;

/// What a new operation leads to, and how it may be repeated.
#[derive(clap::Args)]
pub struct NewArgs {
    /// Version that the work leads to
    #[arg(long, value_name = "VERSION")]
    to: String,
    /// Data that the work needs, at most 256 KiB
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// Repeated work gives the same result: a worker that resumes it need not look first
    #[arg(long)]
    deterministic: bool,
    /// It can be undone
    #[arg(long)]
    reversible: bool,
}

impl NewArgs {
    /// Adds the described operation to a request.
    ///
    /// # Errors
    /// If the file of the payload cannot be read.
    pub fn request(self, base: BeginOperationRequest) -> Result<BeginOperationRequest, UsageError> {
        let payload = self.payload.as_deref().map(file::read).transpose()?;
        Ok(BeginOperationRequest {
            target_version: self.to,
            payload: payload.unwrap_or_default().into(),
            deterministic: self.deterministic,
            reversible: self.reversible,
            ..base
        })
    }
}

//! `watch --exec --resume FILE`: what was done so far, for the next start.
//!
//! The file is written while no command runs and none waits, so a change whose command did not end
//! comes again.

use std::path::PathBuf;

use anyhow::Context as _;
use bellwether_client::{Client, SavedApplication, SavedWatch, Watch};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use crate::cli::command::watch::change::KnownLevels;
use crate::cli::exit::UsageError;
use crate::cli::private_file;
use crate::proto::v1::{Level, WatchApplicationsRequest};

/// The format of the file.
const FORMAT: u32 = 1;
/// The file is written so often at most.
const PAUSE: Duration = Duration::from_secs(1);
/// The file of a million applications.
const BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct ResumeFile {
    format: u32,
    filter: String,
    resume_token: String,
    store_epoch: String,
    applications: Vec<Printed>,
}

#[derive(Serialize, Deserialize)]
struct Printed {
    namespace: String,
    name: String,
    revision: u64,
    level: i32,
    message: String,
}

/// The file, and what it has.
pub struct Resume {
    path: PathBuf,
    filter: String,
    saved_token: String,
    saved_at: Instant,
}

impl Resume {
    /// Reads the file if it is there, and starts a watch from it.
    ///
    /// # Errors
    /// If the file cannot be used, or is of another watch.
    pub fn start(
        path: PathBuf,
        client: &Client,
        request: WatchApplicationsRequest,
    ) -> anyhow::Result<(Resume, Watch, KnownLevels)> {
        let filter = format!(
            "{} {:?} {:?} {:?}",
            request.namespace, request.applications, request.levels, request.stable_for
        );
        let resume = Resume { path, filter, saved_token: String::new(), saved_at: Instant::now() };
        let mut known = KnownLevels::default();
        let Some(file) = resume.read()? else {
            return Ok((resume, Watch::new(client, request), known));
        };
        let mut applications = Vec::with_capacity(file.applications.len());
        for Printed { namespace, name, revision, level, message } in file.applications {
            let printed = Level::try_from(level).unwrap_or(Level::Unknown);
            known.restore((namespace.clone(), name.clone()), printed, message);
            applications.push(SavedApplication { namespace, name, revision, level });
        }
        let ResumeFile { resume_token, store_epoch, .. } = file;
        let saved = SavedWatch { resume_token, store_epoch, applications };
        Ok((resume, Watch::resumed(client, request, saved), known))
    }

    fn read(&self) -> anyhow::Result<Option<ResumeFile>> {
        let path = self.path.display();
        let length = match std::fs::metadata(&self.path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {path}")),
        };
        let wrong = |why: &str| UsageError(format!("{path} {why}: delete it to start anew"));
        if BYTES_MAX < length {
            return Err(wrong("is too long").into());
        }
        let text = std::fs::read(&self.path).with_context(|| format!("read {path}"))?;
        let file: ResumeFile =
            serde_json::from_slice(&text).map_err(|_| wrong("is no file of a watch"))?;
        if file.format != FORMAT || file.filter != self.filter {
            return Err(wrong("is of a watch with another filter or version").into());
        }
        Ok(Some(file))
    }

    /// Returns when the file may be written again.
    pub fn next_at(&self) -> Instant {
        self.saved_at + PAUSE
    }

    /// Writes what was done, unless the file has it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&mut self, watch: &Watch, known: &KnownLevels) -> anyhow::Result<()> {
        self.saved_at = Instant::now();
        let Some(saved) = watch.saved().filter(|saved| saved.resume_token != self.saved_token)
        else {
            return Ok(());
        };
        let applications = saved.applications.into_iter().map(|saved| {
            let SavedApplication { namespace, name, revision, level } = saved;
            let message = known.of(&namespace, &name).map(|(_, message)| message.clone());
            let message = message.unwrap_or_default();
            Printed { namespace, name, revision, level, message }
        });
        let file = ResumeFile {
            format: FORMAT,
            filter: self.filter.clone(),
            resume_token: saved.resume_token,
            store_epoch: saved.store_epoch,
            applications: applications.collect(),
        };
        private_file::replace(&self.path, &serde_json::to_string(&file)?)?;
        self.saved_token = file.resume_token;
        Ok(())
    }
}

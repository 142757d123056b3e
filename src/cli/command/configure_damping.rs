//! The options of `bellwether configure` for latches and damping.

use std::time::Duration;

use crate::cli::span;
use crate::domain::limits::GOOD_COUNT;
use crate::proto::v1::{ApplicationConfig, Damping, Latch};

/// The word for the statuses of a unit as a whole.
const WHOLE_UNIT: &str = "-";

/// The word that removes all latches, or all damped components.
const NONE: &str = "none";

/// Options that each replace the whole setting; `none` removes it.
#[derive(clap::Args)]
pub struct DampingArgs {
    /// A bad pull of COMPONENT sticks until N good ones; - is the unit as a whole, * are all
    #[arg(long, value_name = "COMPONENT=N,...|none", value_delimiter = ',', value_parser = latch)]
    pub latch: Vec<Option<Latch>>,
    /// Components that show the worst while they flap; - is the unit as a whole, * are all
    #[arg(long, value_name = "COMPONENT,...|none", value_delimiter = ',')]
    pub damp: Vec<String>,
    /// Flapping starts above this share of swings, in percent; 30 if not given
    #[arg(long, value_name = "PERCENT", requires = "damp")]
    pub flap_start: Option<i32>,
    /// Flapping continues above this share, in percent; 25 if not given
    #[arg(long, value_name = "PERCENT", requires = "damp")]
    pub flap_stop: Option<i32>,
    /// Flapping ends when the level has not moved for this long; 5m if not given
    #[arg(long, value_name = "SPAN", requires = "damp", value_parser = span::parse)]
    pub calm_after: Option<Duration>,
}

/// Parses `db=3`; returns `None` for `none`.
fn latch(text: &str) -> Result<Option<Latch>, String> {
    if text == NONE {
        return Ok(None);
    }
    let split = text.rsplit_once('=');
    let (component, count) = split.ok_or_else(|| format!("`{text}` is not as in db=3"))?;
    let count = count.parse().ok().filter(|count| GOOD_COUNT.contains(count));
    let (min, max) = GOOD_COUNT.into_inner();
    let count = count.ok_or_else(|| format!("a latch waits for {min} to {max} good pulls"))?;
    Ok(Some(Latch { component: from_typed(component), good_count: count as i32 }))
}

fn from_typed(component: &str) -> String {
    match component {
        WHOLE_UNIT => String::new(),
        component => component.to_string(),
    }
}

fn as_typed(component: &str) -> &str {
    match component {
        "" => WHOLE_UNIT,
        component => component,
    }
}

impl DampingArgs {
    /// Returns the damping for the wire; `None` if no component is damped.
    pub fn damping(&self) -> Option<Damping> {
        let components = self.damp.iter().filter(|component| *component != NONE);
        let components: Vec<String> = components.map(|c| from_typed(c)).collect();
        if components.is_empty() {
            return None;
        }
        Some(Damping {
            components,
            start_percent: self.flap_start.unwrap_or_default(),
            stop_percent: self.flap_stop.unwrap_or_default(),
            calm_after: self.calm_after.map(span::on_wire),
        })
    }
}

/// Formats latches as `--latch` takes them.
pub fn latches_as_typed(config: &ApplicationConfig) -> String {
    let typed = |latch: &Latch| format!("{}={}", as_typed(&latch.component), latch.good_count);
    let latches: Vec<String> = config.latches.iter().map(typed).collect();
    if latches.is_empty() { NONE.to_string() } else { latches.join(",") }
}

/// Formats components as `--damp` takes them, with the thresholds of flapping.
pub fn damping_as_typed(config: &ApplicationConfig) -> String {
    let Some(damping) = config.damping.as_ref().filter(|d| !d.components.is_empty()) else {
        return NONE.to_string();
    };
    let components: Vec<&str> = damping.components.iter().map(|c| as_typed(c)).collect();
    format!(
        "{} (above {} %, until {} % or {} without a swing)",
        components.join(","),
        damping.start_percent,
        damping.stop_percent,
        span::exact(span::from_wire(damping.calm_after).unwrap_or_default())
    )
}

//! What `leader claim`, `release` and `transfer` would change, for `--dry-run`. A line that the
//! server would refuse is an error with the exit code of the refusal.

use crate::cli::command::leader::leads;
use crate::cli::exit::{NotFoundError, NotThisUnitError};
use crate::proto::v1::{Freshness, GetLeaderResponse, Lease, Unit};

/// Says what a claim of `unit` would do.
pub fn claim(unit: &str, now: &GetLeaderResponse) -> anyhow::Result<String> {
    Ok(match &now.lease {
        None => format!("{unit} would lead"),
        Some(lease) if lease.lease_epoch == 0 => return Err(decided_outside(lease)),
        Some(lease) if lease.unit == unit => format!("{unit} leads, and would renew its lease"),
        Some(lease) => {
            let waits = now.candidates.iter().any(|waiting| waiting == unit);
            let line = if waits { "would stay in line" } else { "would wait in line" };
            let text = format!("{unit} would not lead{}; it {line}", leads(lease));
            return Err(NotThisUnitError(text).into());
        }
    })
}

/// Says what a release by `unit`, under `epoch` if given, would do.
pub fn release(unit: &str, epoch: Option<u64>, now: &GetLeaderResponse) -> anyhow::Result<String> {
    let Some(lease) = &now.lease else { return Ok(format!("{unit} does not lead; nobody does")) };
    if lease.unit != unit || epoch.is_some_and(|epoch| epoch != lease.lease_epoch) {
        let text = format!("{unit} does not lead{}", leads(lease));
        return match epoch {
            Some(_) => Err(NotThisUnitError(text).into()),
            None => Ok(text),
        };
    }
    if lease.lease_epoch == 0 {
        return Ok(format!("{unit} leads as decided outside, so it has no lease to release"));
    }
    Ok(match now.candidates.iter().find(|waiting| *waiting != unit) {
        Some(next) => format!("{unit} would no longer lead; {next} would"),
        None => format!("{unit} would no longer lead; nobody would"),
    })
}

/// Says what a transfer to `unit`, one of `units`, would do.
pub fn transfer(unit: &str, units: &[Unit], now: &GetLeaderResponse) -> anyhow::Result<String> {
    let Some(known) = units.iter().find(|known| known.name == unit) else {
        return Err(NotFoundError(format!("there is no unit {unit}")).into());
    };
    if known.freshness() == Freshness::Lost {
        anyhow::bail!("{unit} is lost, so it cannot lead");
    }
    Ok(match &now.lease {
        None => format!("{unit} would lead"),
        Some(lease) if lease.lease_epoch == 0 => return Err(decided_outside(lease)),
        Some(lease) if lease.unit == unit => format!("{unit} leads already"),
        Some(lease) => format!("{unit} would lead; {} would no longer", lease.unit),
    })
}

fn decided_outside(lease: &Lease) -> anyhow::Error {
    anyhow::anyhow!("{} leads as decided outside, so no other unit can", lease.unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    fn led_by(unit: &str, lease_epoch: u64, candidates: &[&str]) -> GetLeaderResponse {
        GetLeaderResponse {
            lease: Some(Lease { unit: unit.into(), lease_epoch, ..Lease::default() }),
            candidates: candidates.iter().map(ToString::to_string).collect(),
            ..GetLeaderResponse::default()
        }
    }

    /// Returns what is said, and the exit code.
    fn said(result: anyhow::Result<String>) -> (String, Exit) {
        match result {
            Ok(text) => (text, Exit::Ok),
            Err(error) => (error.to_string(), Exit::of(&error)),
        }
    }

    fn check(result: anyhow::Result<String>, text: &str, exit: Exit) {
        assert_eq!(said(result), (text.to_string(), exit));
    }

    #[test]
    fn a_claim_leads_renews_or_waits() {
        let nobody = GetLeaderResponse::default();
        check(claim("a/0", &nobody), "a/0 would lead", Exit::Ok);
        let own = led_by("a/0", 3, &[]);
        check(claim("a/0", &own), "a/0 leads, and would renew its lease", Exit::Ok);
        let text = "a/1 would not lead; a/0 does (epoch 3); it would wait in line";
        check(claim("a/1", &own), text, Exit::NotThisUnit);
        let text = "a/1 would not lead; a/0 does (epoch 3); it would stay in line";
        check(claim("a/1", &led_by("a/0", 3, &["a/1"])), text, Exit::NotThisUnit);
        let text = "a/0 leads as decided outside, so no other unit can";
        check(claim("a/1", &led_by("a/0", 0, &[])), text, Exit::Failed);
    }

    #[test]
    fn a_release_names_who_would_lead_next() {
        let own = led_by("a/0", 3, &["a/1", "a/2"]);
        check(release("a/0", None, &own), "a/0 would no longer lead; a/1 would", Exit::Ok);
        let alone = led_by("a/0", 3, &[]);
        let text = "a/0 would no longer lead; nobody would";
        check(release("a/0", Some(3), &alone), text, Exit::Ok);
        let text = "a/1 does not lead; a/0 does (epoch 3)";
        check(release("a/1", None, &own), text, Exit::Ok);
        check(release("a/1", Some(3), &own), text, Exit::NotThisUnit);
        let text = "a/0 does not lead; a/0 does (epoch 3)";
        check(release("a/0", Some(2), &own), text, Exit::NotThisUnit);
    }

    #[test]
    fn a_transfer_names_who_would_no_longer_lead() {
        let unit = |name: &str, freshness: Freshness| Unit {
            name: name.into(),
            freshness: freshness.into(),
            ..Unit::default()
        };
        let units = [
            unit("a/0", Freshness::Fresh),
            unit("a/1", Freshness::Fresh),
            unit("a/2", Freshness::Lost),
        ];
        let own = led_by("a/0", 3, &[]);
        let text = "a/1 would lead; a/0 would no longer";
        check(transfer("a/1", &units, &own), text, Exit::Ok);
        check(transfer("a/0", &units, &own), "a/0 leads already", Exit::Ok);
        let text = "a/2 is lost, so it cannot lead";
        check(transfer("a/2", &units, &own), text, Exit::Failed);
        check(transfer("a/7", &units, &own), "there is no unit a/7", Exit::NotFound);
    }
}

//! Checks the fields of a request, and collects every violation of the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::domain::bytes::Bytes;
use crate::domain::leadership::Claim;
use crate::domain::level::Level;
use crate::domain::limits::{
    LABEL_BYTES_MAX, LABELS_MAX, NAME_BYTES_MAX, PRIORITY_MAX, REQUEST_ID_BYTES_MAX,
    SHORT_MESSAGE_CHARS_MAX,
};
use crate::domain::message;
use crate::domain::name::{AppName, NameError, OperationId, PartName, UnitName, namespace_name};
use crate::domain::status::Kind;
use crate::domain::time::Timestamp;
use crate::domain::unit::Reporter;
use crate::proto::v1;
use crate::service::code::{ApiError, Reason, Violation, quoted};
use crate::service::convert::value::from_level;

/// Violations of one request that are kept; the others are counted. An error shows as many of them
/// as fit.
const VIOLATIONS_MAX: usize = 20;
/// Seconds of the longest `google.protobuf.Duration`: 10,000 years.
const DURATION_SECONDS_MAX: i64 = 315_576_000_000;

/// Checks the fields of one request. A wrong field is noted, and then read as any valid value:
/// [`Fields::finish`] refuses the request.
#[derive(Default)]
pub struct Fields {
    violations: Vec<Violation>,
    /// Number of violations beyond those that are kept.
    left_out: usize,
    /// The message of the fields that are being checked.
    pub(super) within: Within,
    /// The application that the request is about, if it is known before the fields are read.
    pub(super) own: Option<AppName>,
    /// Whether texts for people that are too long are cut instead of refused.
    cuts: bool,
    /// What was cut, and the number of further cuts.
    cut: (Vec<String>, usize),
}

/// The message that contains a field. Converted to text only for a violation.
#[derive(Clone, Copy, Default)]
pub(super) enum Within {
    /// The request itself.
    #[default]
    Request,
    /// A field of the request that is a message.
    Message(&'static str),
    /// An element of a repeated field.
    Nth(&'static str, usize),
}

/// A noted violation; `None` if it is only counted.
pub(super) struct Noted<'a>(Option<&'a mut Violation>);

impl Noted<'_> {
    /// Adds a fact for programs: the `value` that was given, the `max` that it exceeds.
    pub(super) fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        if let Some(violation) = &mut self.0 {
            violation.add(key, &value.to_string());
        }
        self
    }
}

impl Within {
    /// Returns the path to the message, as a prefix.
    fn prefix(self) -> String {
        match self {
            Within::Request => String::new(),
            Within::Message(name) => format!("{name}."),
            Within::Nth(name, n) => format!("{name}[{n}]."),
        }
    }
}

impl Fields {
    /// Starts the check of a message about an application.
    pub(super) fn about(app: &AppName) -> Fields {
        Fields { own: Some(app.clone()), ..Fields::default() }
    }

    /// Ends the check: returns the value that was read, or a failure with all violations.
    pub fn finish<T>(self, read: Option<T>) -> Result<T, ApiError> {
        match read {
            Some(read) if self.violations.is_empty() => Ok(read),
            _ => Err(ApiError::of_fields(self.violations).and_more(self.left_out)),
        }
    }

    /// Cuts texts for people that are too long from now on, if the sender asks for that.
    pub fn cut_long_texts(&mut self, cuts: bool) {
        self.cuts = cuts;
    }

    /// Returns what was cut, as advice for the author of the worker.
    pub fn take_cuts(&mut self) -> Vec<String> {
        let (mut cut, more) = std::mem::take(&mut self.cut);
        if more != 0 {
            cut.push(format!("{more} more texts were cut"));
        }
        cut
    }

    /// Returns whether there is a violation so far.
    pub(super) fn is_wrong(&self) -> bool {
        !self.violations.is_empty()
    }

    /// Reads a part of the request; `None` if there is a violation in it.
    pub(super) fn checked<T>(&mut self, read: impl FnOnce(&mut Fields) -> T) -> Option<T> {
        let noted = |fields: &Fields| fields.violations.len() + fields.left_out;
        let before = noted(self);
        let read = read(self);
        (noted(self) == before).then_some(read)
    }

    /// Reads the fields of a message in the request.
    pub(super) fn inside<T>(&mut self, message: Within, read: impl FnOnce(&mut Fields) -> T) -> T {
        let outer = std::mem::replace(&mut self.within, message);
        let read = read(self);
        self.within = outer;
        read
    }

    /// Notes a violation of a field. The caller adds facts of the description to the result.
    pub(super) fn note(
        &mut self,
        field: &str,
        reason: Reason,
        description: impl Into<String>,
    ) -> Noted<'_> {
        if VIOLATIONS_MAX <= self.violations.len() {
            self.left_out += 1;
            return Noted(None);
        }
        let field = format!("{}{field}", self.within.prefix());
        self.violations.push(Violation::new(field, reason, description));
        Noted(self.violations.last_mut())
    }

    /// Notes a field with a wrong value. Returns `None`: it has no value.
    pub(super) fn wrong<T>(
        &mut self,
        field: &str,
        text: impl Into<String>,
        value: impl ToString,
    ) -> Option<T> {
        self.note(field, Reason::InvalidValue, text).with("value", value);
        None
    }

    /// Notes a field that is missing. Returns `None`: it has no value.
    pub(super) fn missing<T>(&mut self, field: &str, text: impl Into<String>) -> Option<T> {
        self.note(field, Reason::MissingField, text);
        None
    }

    /// Reads a value of an enum of the wire. Of a number that is not in it, `advice` follows.
    pub(super) fn choice<E: TryFrom<i32>>(
        &mut self,
        field: &str,
        given: i32,
        advice: &str,
    ) -> Option<E> {
        let read = E::try_from(given).ok();
        read.or_else(|| self.wrong(field, format!("is {given}{advice}"), given))
    }

    pub(super) fn name<T>(
        &mut self,
        field: &str,
        given: &str,
        read: Result<T, NameError>,
    ) -> Option<T> {
        match read {
            Ok(name) => Some(name),
            Err(NameError::Empty) => self.missing(field, "is required"),
            Err(error) => {
                self.note(field, Reason::InvalidName, error.to_string())
                    .with("value", given)
                    .with("max", NAME_BYTES_MAX);
                None
            }
        }
    }

    /// Reads the name of an application.
    pub(super) fn app(&mut self, namespace: &str, application: &str) -> Option<AppName> {
        match AppName::new(namespace, application) {
            Ok(name) => Some(name),
            Err((field, error)) => {
                let given = if field == "namespace" { namespace } else { application };
                self.name(field, given, Err(error))
            }
        }
    }

    /// Reads the name of an application from a list of names.
    pub(super) fn app_in(
        &mut self,
        field: &str,
        (namespace, application): (&str, &str),
        given: &str,
    ) -> Option<AppName> {
        let read = AppName::new(namespace, application).map_err(|(_, error)| error);
        self.name(field, given, read)
    }

    /// Reads a namespace; `-` means all and gives `None`.
    #[allow(clippy::option_option)]
    pub(super) fn namespace(&mut self, text: &str) -> Option<Option<Arc<str>>> {
        match text {
            "-" => Some(None),
            text => self.name("namespace", text, namespace_name(text)).map(Some),
        }
    }

    /// Reads a required unit.
    pub fn unit(&mut self, field: &str, text: &str) -> UnitName {
        self.name(field, text, UnitName::new(text)).unwrap_or_default()
    }

    /// Reads a unit that calls outside of a session.
    pub(super) fn reporter(&mut self, unit: &str, incarnation: Option<u64>) -> Reporter {
        Reporter::new(self.unit("unit", unit), incarnation)
    }

    /// Reads the unit and the epoch of a leader.
    pub(super) fn claim(&mut self, unit: &str, lease_epoch: u64) -> Claim {
        let unit = self.unit_or_application("unit", unit);
        Claim { unit, lease_epoch, decided_outside: false }
    }

    /// Reads the leader of a write, which may have been made the leader outside.
    pub(super) fn writer(&mut self, unit: &str, lease_epoch: u64, decided_outside: bool) -> Claim {
        if !decided_outside {
            return self.claim(unit, lease_epoch);
        }
        if lease_epoch != 0 {
            let text = "is a lease of this server; leave it out with `decided_outside`";
            self.note("lease_epoch", Reason::InvalidValue, text).with("value", lease_epoch);
        }
        Claim { unit: self.unit("unit", unit), lease_epoch: 0, decided_outside }
    }

    /// Reads an optional unit; empty means the application itself.
    pub fn unit_or_application(&mut self, field: &str, text: &str) -> UnitName {
        match text {
            "" => UnitName::application(),
            text => self.unit(field, text),
        }
    }

    /// Reads a required operation id.
    pub fn operation_id(&mut self, text: &str) -> Option<OperationId> {
        self.name("operation_id", text, OperationId::new(text))
    }

    /// Reads opaque bytes of a worker.
    pub(super) fn bytes(&mut self, field: &str, bytes: &bytes::Bytes, max: usize) -> Bytes {
        if max < bytes.len() {
            let text = format!("has {} bytes; at most {max}", bytes.len());
            let noted = self.note(field, Reason::ValueTooLarge, text);
            noted.with("bytes", bytes.len()).with("max", max);
        }
        Bytes::from(bytes.clone())
    }

    /// Reads a component or a key.
    pub fn part(&mut self, field: &str, text: &str) -> PartName {
        self.name(field, text, PartName::new(text)).unwrap_or_default()
    }

    /// Reads the id of the request. Control characters are reserved for the server's own ids.
    pub fn request_id(&mut self, id: &str) -> Option<Arc<str>> {
        let (bytes, max) = (id.len(), REQUEST_ID_BYTES_MAX);
        if max < bytes {
            let text = format!("is {bytes} bytes long; at most {max}");
            let noted = self.note("request_id", Reason::InvalidValue, text);
            noted.with("bytes", bytes).with("max", max);
        } else if id.chars().any(char::is_control) {
            let text = "has control characters; give letters, digits and signs";
            self.wrong::<()>("request_id", text, id.escape_debug());
        }
        (!id.is_empty()).then(|| Arc::from(id))
    }

    /// Reads a required level.
    pub fn level(&mut self, field: &str, level: i32) -> Level {
        let known = v1::Level::try_from(level);
        match known {
            Ok(v1::Level::Unspecified) => {
                let words: Vec<&str> = Level::ALL.iter().map(|l| l.word()).collect();
                let text = format!("is required: one of {}", words.join(", "));
                self.note(field, Reason::MissingField, text);
            }
            Ok(_) => {}
            Err(_) => {
                let text = format!("is {level}, which is not in the enum Level");
                self.note(field, Reason::UnknownLevel, text).with("value", level);
            }
        }
        from_level(known.unwrap_or_default())
    }

    pub(super) fn kind(&mut self, kind: i32) -> Option<Kind> {
        match self.choice("kind", kind, "; give pull, push, or nothing")? {
            v1::StatusKind::Unspecified => None,
            v1::StatusKind::Pull => Some(Kind::Pull),
            v1::StatusKind::Push => Some(Kind::Push),
        }
    }

    pub(super) fn text(&mut self, field: &str, text: &str, bytes_max: usize) -> Box<str> {
        self.owned_text(field, text.to_string(), bytes_max)
    }

    /// Like `text`, without a copy of the text.
    pub(super) fn owned_text(&mut self, field: &str, text: String, bytes_max: usize) -> Box<str> {
        let bytes = text.len();
        if bytes_max < bytes {
            let problem = format!("is {bytes} bytes long; at most {bytes_max}");
            let noted = self.note(field, Reason::MessageTooLong, problem);
            noted.with("bytes", bytes).with("max", bytes_max);
        }
        text.into()
    }

    /// Reads a text for people, which is cut if it is too long and the sender asks for that.
    pub(super) fn prose(&mut self, field: &str, text: String, bytes_max: usize) -> Box<str> {
        if !self.cuts || text.len() <= bytes_max {
            return self.owned_text(field, text, bytes_max);
        }
        self.note_cut(field, format!("{} to {bytes_max} bytes", text.len()));
        message::cut_bytes(&text, bytes_max).into()
    }

    /// Reads a short message, which has a limit of characters.
    pub(super) fn short_message(&mut self, text: String) -> Box<str> {
        let (chars, max) = (text.chars().count(), SHORT_MESSAGE_CHARS_MAX);
        if chars <= max {
            return text.into();
        }
        if !self.cuts {
            let problem = format!("has more than {max} characters");
            self.note("short_message", Reason::MessageTooLong, problem).with("max", max);
            return text.into();
        }
        self.note_cut("short_message", format!("{chars} to {max} characters"));
        message::cut(&text, max).into()
    }

    fn note_cut(&mut self, field: &str, how: String) {
        if VIOLATIONS_MAX <= self.cut.0.len() {
            self.cut.1 += 1;
            return;
        }
        self.cut.0.push(format!("{}{field} was cut from {how}", self.within.prefix()));
    }

    pub(super) fn weight(&mut self, field: &str, weight: i32) -> i32 {
        if PRIORITY_MAX.unsigned_abs() < weight.unsigned_abs() {
            let text = format!("is {weight}; give -{PRIORITY_MAX} to {PRIORITY_MAX}");
            let noted = self.note(field, Reason::InvalidValue, text);
            noted.with("value", weight).with("max", PRIORITY_MAX);
        }
        weight
    }

    /// Reads an optional duration within bounds.
    pub fn duration(
        &mut self,
        field: &str,
        duration: Option<prost_types::Duration>,
        min: Duration,
        max: Duration,
    ) -> Option<Duration> {
        let given = duration?;
        let given = within_proto(given);
        let read = Duration::try_from(given).ok().filter(|read| (min..=max).contains(read));
        if read.is_none() {
            let (min, max) = (min.as_secs_f64(), max.as_secs_f64());
            let text = format!("is {given}; give {min} s to {max} s, or nothing");
            self.note(field, Reason::InvalidValue, text)
                .with("value", given)
                .with("min_seconds", min)
                .with("max_seconds", max);
        }
        read
    }

    /// Reads a duration that a peer of the sender chose. One out of bounds is cut: it must not cost
    /// the report.
    pub(super) fn peers_duration(
        &mut self,
        field: &str,
        duration: Option<prost_types::Duration>,
        max: Duration,
    ) -> Option<Duration> {
        let given = within_proto(duration?);
        let read = match Duration::try_from(given) {
            Ok(read) if read <= max => return Some(read),
            _ if 0 < given.seconds => max,
            _ => Duration::ZERO,
        };
        self.note_cut(field, format!("{} s to {} s", given.seconds, read.as_secs()));
        Some(read)
    }

    /// Reads an optional timestamp.
    pub fn moment(
        &mut self,
        field: &str,
        time: Option<prost_types::Timestamp>,
    ) -> Option<Timestamp> {
        let given = time?;
        let seconds = u64::try_from(given.seconds).ok();
        let nanos = u64::try_from(given.nanos).ok().filter(|n| *n < 1_000_000_000);
        // The end of the year 9999, the maximum of google.protobuf.Timestamp.
        let read = seconds.filter(|s| *s < 253_402_300_800).zip(nanos);
        if read.is_none() {
            self.note(field, Reason::InvalidValue, "is not between the years 1970 and 9999")
                .with("seconds", given.seconds);
        }
        read.map(|(seconds, nanos)| Timestamp::new(seconds * 1000 + nanos / 1_000_000))
    }

    pub(super) fn labels(
        &mut self,
        labels: &BTreeMap<String, String>,
    ) -> BTreeMap<Box<str>, Box<str>> {
        let (count, max) = (labels.len(), LABEL_BYTES_MAX);
        let is_long = |key: &str, value: &str| key.is_empty() || max < key.len().max(value.len());
        if LABELS_MAX < count {
            let text = format!("are {count}; at most {LABELS_MAX}");
            let noted = self.note("labels", Reason::InvalidValue, text);
            noted.with("count", count).with("max", LABELS_MAX);
        } else if let Some((key, _)) = labels.iter().find(|(key, value)| is_long(key, value)) {
            let text =
                format!("has {}; keys have 1 to {max} bytes, values at most as many", quoted(key));
            let noted = self.note("labels", Reason::InvalidValue, text);
            noted.with("value", key).with("max", max);
        }
        labels.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into())).collect()
    }

    /// Reads the levels of a filter.
    pub fn levels(&mut self, levels: &[i32]) -> BTreeSet<Level> {
        levels.iter().map(|level| self.level("levels", *level)).collect()
    }
}

/// Cuts a duration to the range of `google.protobuf.Duration`. The conversion of far longer ones
/// overflows, and so does their text.
pub(super) fn within_proto(given: prost_types::Duration) -> prost_types::Duration {
    let seconds = given.seconds.clamp(-DURATION_SECONDS_MAX, DURATION_SECONDS_MAX);
    prost_types::Duration { seconds, ..given }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_of_any_numbers_is_refused_and_quoted() {
        for seconds in [i64::MIN, -i64::MAX, i64::MAX] {
            for nanos in [i32::MIN, 0, i32::MAX] {
                let mut fields = Fields::default();
                let given = prost_types::Duration { seconds, nanos };
                let read = fields.duration("ttl", Some(given), Duration::ZERO, Duration::MAX / 2);
                let is_negative = seconds < 0;
                assert_eq!(read.is_none(), is_negative, "{seconds} s {nanos} ns");
                assert_eq!(fields.violations.len(), usize::from(is_negative));

                let max = Duration::from_secs(60);
                let read = fields.peers_duration("retry_after", Some(given), max);
                assert_eq!(read, Some(if is_negative { Duration::ZERO } else { max }));
            }
        }
    }
}

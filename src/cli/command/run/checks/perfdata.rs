//! Performance data of a plugin: `'label'=value[UOM];warn;crit;min;max`, separated by spaces.

/// Entries that are read of one output.
const METRICS_MAX: usize = 1_024;

/// One value with its thresholds.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name.
    pub label: String,
    /// The value; `None`: the plugin could not determine it (`U`).
    pub value: Option<f64>,
    /// The value and its unit, as written.
    pub written: String,
    /// Outside of it is a warning.
    pub warning: Option<Range>,
    /// Outside of it is critical.
    pub critical: Option<Range>,
}

/// The values that are well.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    low: f64,
    high: f64,
    /// The values within are the ones that are not well.
    is_inverse: bool,
    /// The range as written.
    pub written: String,
}

impl Range {
    /// Parses `10`, `10:`, `~:10`, `10:20` or `@10:20`.
    fn parse(text: &str) -> Option<Range> {
        let (is_inverse, bounds) = match text.strip_prefix('@') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (low, high) = bounds.split_once(':').unwrap_or(("", bounds));
        let low = match low {
            "" => 0.0,
            "~" => f64::NEG_INFINITY,
            low => number(low)?.0,
        };
        let high = match high {
            "" if bounds.contains(':') => f64::INFINITY,
            high => number(high)?.0,
        };
        (low <= high).then(|| Range { low, high, is_inverse, written: text.to_string() })
    }

    /// Returns whether a value is not well.
    pub fn is_passed_by(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value) == self.is_inverse
    }
}

/// Parses the entries. An invalid one is left out, up to the next space.
pub fn parse(text: &str) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && metrics.len() < METRICS_MAX {
        let (metric, after) = match label(rest) {
            Some((label, after)) => {
                let (entry, after) = word(after);
                (metric(label, entry), after)
            }
            None => (None, word(rest).1),
        };
        metrics.extend(metric);
        rest = after.trim_start();
    }
    metrics
}

/// Splits off the label and its `=`. A quote within a quoted label is written twice.
fn label(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('\'') else {
        let end = text.find('=')?;
        let name = &text[..end];
        let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
        return is_name.then(|| (name.to_string(), &text[end + 1..]));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('\'')?;
        name.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                name.push('\'');
                rest = more;
            }
            None => return after.strip_prefix('=').map(|value| (name, value)),
        }
    }
}

fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

fn metric(label: String, entry: &str) -> Option<Metric> {
    let mut parts = entry.split(';');
    let written = parts.next()?;
    let value = match written {
        "U" => None,
        written => Some(number(written)?.0),
    };
    let mut range = || parts.next().filter(|text| !text.is_empty()).and_then(Range::parse);
    let (warning, critical) = (range(), range());
    Some(Metric { label, value, written: written.to_string(), warning, critical })
}

/// Parses a number and returns what follows it, which is its unit. A comma as in some languages
/// stands for the point.
fn number(text: &str) -> Option<(f64, &str)> {
    let is_part = |c: char| c.is_ascii_digit() || "+-.,".contains(c);
    let mut end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    // An exponent, unless the letter begins a unit.
    let exponent = text[end..].strip_prefix(['e', 'E']).unwrap_or_default();
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let count = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if 0 < count {
        end = text.len() - digits.len() + count;
    }
    let value: f64 = text[..end].replace(',', ".").parse().ok()?;
    value.is_finite().then_some((value, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_units_and_labels_are_read() {
        for (text, expected) in [
            ("a=1", vec![("a", Some(1.0), "1")]),
            ("a=1 b=2", vec![("a", Some(1.0), "1"), ("b", Some(2.0), "2")]),
            ("  a=1\n b=2\t", vec![("a", Some(1.0), "1"), ("b", Some(2.0), "2")]),
            ("time=0.012s;;;0.000;10", vec![("time", Some(0.012), "0.012s")]),
            ("/=1234MB;5000;6000;0;7000", vec![("/", Some(1234.0), "1234MB")]),
            ("'free space'=40%", vec![("free space", Some(40.0), "40%")]),
            ("'it''s'=1c", vec![("it's", Some(1.0), "1c")]),
            ("'a=b'=1", vec![("a=b", Some(1.0), "1")]),
            ("rta=U", vec![("rta", None, "U")]),
            ("x=-3.5C", vec![("x", Some(-3.5), "-3.5C")]),
            ("x=1e-3s", vec![("x", Some(0.001), "1e-3s")]),
            ("x=1.5E6", vec![("x", Some(1_500_000.0), "1.5E6")]),
            ("x=2EB", vec![("x", Some(2.0), "2EB")]),
            ("x=1,5", vec![("x", Some(1.5), "1,5")]),
            ("x=+5", vec![("x", Some(5.0), "+5")]),
            // Invalid entries.
            ("x=", vec![]),
            ("x=abc y=1", vec![("y", Some(1.0), "1")]),
            ("word y=1", vec![("y", Some(1.0), "1")]),
            ("=5 y=1", vec![("y", Some(1.0), "1")]),
            ("'open=5", vec![]),
            ("'a'5 y=1", vec![("y", Some(1.0), "1")]),
            ("x=1.2.3 y=1", vec![("y", Some(1.0), "1")]),
            ("x=1e999", vec![]),
            ("", vec![]),
        ] {
            let found = parse(text);
            let found: Vec<_> =
                found.iter().map(|m| (m.label.as_str(), m.value, m.written.as_str())).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn ranges_have_the_meaning_of_the_guidelines() {
        for (range, well, passed) in [
            ("10", &[0.0, 5.0, 10.0][..], &[-1.0, 10.5][..]),
            ("10:", &[10.0, 1e9], &[9.9, -1.0]),
            ("~:10", &[-1e9, 10.0], &[10.1]),
            ("10:20", &[10.0, 15.0, 20.0], &[9.0, 21.0]),
            ("@10:20", &[9.0, 21.0], &[10.0, 15.0, 20.0]),
            ("@5", &[-1.0, 6.0], &[0.0, 5.0]),
            ("-5:-2", &[-3.0], &[-6.0, 0.0]),
            ("80%", &[80.0], &[81.0]),
        ] {
            let read = Range::parse(range).unwrap_or_else(|| panic!("{range}"));
            assert!(well.iter().all(|value| !read.is_passed_by(*value)), "{range}");
            assert!(passed.iter().all(|value| read.is_passed_by(*value)), "{range}");
        }
        for none in ["", "x", "20:10", "@", "1:x", "~"] {
            assert_eq!(Range::parse(none), None, "{none:?}");
        }
    }

    #[test]
    fn thresholds_belong_to_their_value() {
        let [metric] = &parse("load1=5.2;5;@10:20;0;")[..] else { panic!("one entry") };
        assert_eq!(metric.warning.as_ref().map(|range| range.written.as_str()), Some("5"));
        assert_eq!(metric.critical.as_ref().map(|range| range.written.as_str()), Some("@10:20"));
        let [metric] = &parse("x=1;;7")[..] else { panic!("one entry") };
        assert_eq!((metric.warning.is_some(), metric.critical.is_some()), (false, true));
    }

    #[test]
    fn a_flood_of_entries_is_bounded() {
        assert_eq!(parse(&"a=1 ".repeat(METRICS_MAX + 9)).len(), METRICS_MAX);
    }
}

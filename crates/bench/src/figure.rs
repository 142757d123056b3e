//! Figures as text.

/// Formats a whole number with commas.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats three digits and a unit.
pub fn duration(seconds: f64) -> String {
    let millis = seconds * 1e3;
    match millis {
        ..10.0 => format!("{millis:.2} ms"),
        ..100.0 => format!("{millis:.1} ms"),
        ..1000.0 => format!("{millis:.0} ms"),
        _ => format!("{seconds:.2} s"),
    }
}

/// Formats a whole number from 100 on, else three significant digits.
pub fn number(value: f64) -> String {
    match value {
        v if v == v.trunc() || 100.0 <= v.abs() => thousands(v),
        v if 10.0 <= v.abs() => format!("{v:.1}"),
        v if 1.0 <= v.abs() => format!("{v:.2}"),
        v if 0.1 <= v.abs() => format!("{v:.3}"),
        v => format!("{v:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_and_durations() {
        let cases = [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (1_234_567.0, "1,234,567")];
        for (number, expected) in cases {
            assert_eq!(thousands(number), expected);
        }
        let cases = [(0.000_64, "0.64 ms"), (0.02, "20.0 ms"), (0.25, "250 ms"), (2.0, "2.00 s")];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn numbers_have_separators_and_units() {
        let cases = [
            (0.0, "0"),
            (3.0, "3"),
            (12_345.6, "12,346"),
            (45.67, "45.7"),
            (0.9987, "0.999"),
            (0.012_34, "0.0123"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }
}

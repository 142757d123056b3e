//! The spellings of one code: `Unavailable`, `UNAVAILABLE` and `14`, `HTTP 503` and `503`.

use std::borrow::Cow;

/// Words of a text that may be its code.
const WORDS_MAX: usize = 16;

/// Returns a code in lower case, with its letters and digits alone. Codes that are equal so are one
/// code.
pub(in crate::domain) fn plain(code: &str) -> Cow<'_, str> {
    let belongs = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if code.bytes().all(belongs) {
        return code.into();
    }
    let kept = code.chars().filter(|c| c.is_alphanumeric());
    let mut plain = String::with_capacity(code.len());
    for c in kept {
        // Nearly every code is ASCII.
        match c.is_ascii() {
            true => plain.push(c.to_ascii_lowercase()),
            false => plain.extend(c.to_lowercase()),
        }
    }
    plain.into()
}

/// Returns whether a code is so without its marks.
pub(in crate::domain) fn is_plain(code: &str, plain: &str) -> bool {
    let kept = code.chars().filter(|c| c.is_alphanumeric());
    !plain.is_empty() && kept.flat_map(char::to_lowercase).eq(plain.chars())
}

/// Returns the words of a text in which one may be the code: `HTTP/1.1 503 Service Unavailable`.
pub(in crate::domain) fn words(text: &str) -> impl Iterator<Item = &str> {
    let separates = |c: char| !(c.is_alphanumeric() || c == '_');
    text.split(separates).filter(|word| !word.is_empty()).take(WORDS_MAX)
}

/// Returns the short name of an exception of Python: the package and the class.
/// `requests.exceptions.ReadTimeout` is `requests.ReadTimeout`; built-in exceptions have no
/// package.
pub fn short_name(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let package = match *parts {
        ["builtins", _] | [_] => None,
        ["ops", "pebble", ..] => Some("pebble"),
        // A library of a charm is a module that the charm has copied, or a package of charmlibs.
        ["charms", .., module, _] | ["charmlibs", module, ..] => Some(module),
        [package, ..] => Some(package),
        [] => None,
    };
    let class = parts.last().copied().unwrap_or_default();
    package.map_or_else(|| class.to_string(), |package| format!("{package}.{class}"))
}

/// Returns whether a text can be an HTTP status.
pub(in crate::domain) fn is_status(text: &str) -> bool {
    matches!(text.as_bytes(), [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'])
}

/// Returns what the rows have for the detail of an exception: Pebble's statuses by their hundreds;
/// `signal` for the exit status of a command that a signal ended, as Python gives it by the
/// negative signal and a shell by 128 and the signal.
pub(in crate::domain) fn detail<'d>(exception: &str, detail: &'d str) -> &'d str {
    match exception {
        "pebble.APIError" => match detail.as_bytes() {
            [b'4', b'0'..=b'9', b'0'..=b'9'] => "4xx",
            [b'5', b'0'..=b'9', b'0'..=b'9'] => "5xx",
            _ => detail,
        },
        _ if ends_with_status(exception) => exit_status(detail),
        _ => detail,
    }
}

/// Returns whether the detail of an exception is the exit status of a command.
pub(in crate::domain) fn ends_with_status(exception: &str) -> bool {
    matches!(exception, "pebble.ExecError" | "subprocess.CalledProcessError")
}

fn exit_status(status: &str) -> &str {
    match status.parse::<i32>() {
        Ok(-64..=-1 | 129..=192) => "signal",
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_have_the_package_and_the_class() {
        let cases = [
            ("ops.pebble.ConnectionError", "pebble.ConnectionError"),
            ("pebble.ConnectionError", "pebble.ConnectionError"),
            ("ops.model.ModelError", "ops.ModelError"),
            ("requests.exceptions.ReadTimeout", "requests.ReadTimeout"),
            ("lightkube.core.exceptions.ApiError", "lightkube.ApiError"),
            ("builtins.KeyError", "KeyError"),
            ("KeyError", "KeyError"),
            ("charms.operator_libs_linux.v0.apt.PackageError", "apt.PackageError"),
            ("charmlibs.snap._errors.SnapError", "snap.SnapError"),
            ("", ""),
            ("..", "."),
        ];
        for (name, short) in cases {
            assert_eq!(short_name(name), short);
        }
    }

    #[test]
    fn codes_that_differ_in_case_and_marks_are_one() {
        for code in ["LOCK_WAIT", "LockWait", "lock-wait", "lock wait", "lockwait"] {
            assert_eq!(plain(code), "lockwait", "{code}");
        }
        let found: Vec<_> = words("HTTP/1.1 503 Service Unavailable").collect();
        assert_eq!(found, ["HTTP", "1", "1", "503", "Service", "Unavailable"]);
    }
}

//! The file of the user's error rules, in the format of the tables: [`mod@format`].

use std::path::Path;

use super::Error;
use crate::domain::classify::{Rules, format};

/// Bytes of the file: enough for the rules and their texts.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads and checks a file of rules.
pub fn read(path: &Path) -> Result<Rules, Error> {
    let unread = |error| Error::Read("error rules", path.to_path_buf(), error);
    let wrong = |problem| Error::Rules(path.to_path_buf(), problem);
    let bytes = std::fs::metadata(path).map_err(unread)?.len();
    if FILE_BYTES_MAX < bytes {
        return Err(wrong(format!("it has {bytes} bytes; at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(unread)?;
    format::read_own(&text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Rules, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_are_read() {
        let rules = load(
            "[[gone]]\ndomain = 'a.example'\nreason = 'NO_SUCH'\n\
             [[rule]]\nname = 'a'\nsystem = 'http'\ncode = '409'\nclass = 'BLOCKED'\nremedy = 'x'\n\
             [[rule]]\nname = 'b'\norigin = 'PEER'\ndomain = 'a.example'\nreason = 'NO_SUCH'\n\
             class = 'GONE'\n",
        );
        let rules = rules.unwrap();
        assert_eq!(rules.gone.len(), 1);
        let names: Vec<&str> = rules.own.iter().map(|rule| &*rule.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(load("").unwrap(), Rules::default());
    }

    #[test]
    fn mistakes_are_reported_with_their_lines() {
        let rule = "[[rule]]\nname = 'a'\n";
        for (text, expected) in [
            ("[[rule]\n", "line 1"),
            ("\n\nrules = 1\n", "line 3"),
            (&format!("{rule}code = '1'\n"), "missing field `class`"),
            (&format!("{rule}code = 409\nclass = 'FATAL'\n"), "line 3"),
            (&format!("{rule}code = '1'\nclass = 'BAD'\n"), "line 4: class \"BAD\" is none of UN"),
            (&format!("{rule}system = 'SOAP'\nclass = 'FATAL'\n"), "line 3: system \"SOAP\""),
            (&format!("{rule}origin = 'peer'\nclass = 'FATAL'\n"), "line 3: origin \"peer\""),
            (&format!("{rule}outcome = 'MAYBE'\nclass = 'FATAL'\n"), "line 3: outcome"),
            (&format!("{rule}reason = 'no such'\nclass = 'FATAL'\n"), "line 3: reason \"no such\""),
            (&format!("{rule}message = ''\nclass = 'FATAL'\n"), "line 3: message is empty"),
            (&format!("{rule}class = 'FATAL'\n"), "line 1: the rule matches every error"),
            (&format!("{rule}code = '1'\nclass = 'GONE'\n"), "line 4: class GONE needs"),
            (
                &format!("{rule}origin = 'TRANSPORT'\nclass = 'BLOCKED'\n"),
                "line 4: class needs an answer of the peer",
            ),
            (&format!("{rule}code = '1'\nclass = 'FATAL'\nremedy = 'x'\n"), "line 5: remedy"),
            (
                &format!("{rule}code = '1'\nclass = 'FATAL'\n{rule}code = '2'\nclass = 'FATAL'\n"),
                "line 6: name \"a\" is taken",
            ),
            (&format!("{rule}when = 'QUOTE'\nclass = 'FATAL'\n"), "line 3: when \"QUOTE\" is none"),
            (&format!("{rule}code = []\nclass = 'FATAL'\n"), "line 3: code is empty"),
            (&format!("{rule}code = '1'\nclass = 'CONFLICT'\nholds = false\n"), "line 5: holds"),
            ("[[gone]]\ndomain = ''\nreason = 'n o'\n", "line 3: reason \"n o\" is not 1 to 253"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        // Both mistakes in one error, so that one edit corrects them.
        let two = load(&format!("{rule}system = 'SOAP'\nclass = 'BAD'\n")).unwrap_err();
        assert!(two.contains("line 3") && two.contains("line 4"), "{two}");
    }
}

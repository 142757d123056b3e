//! The query of a request: names and values, decoded.

use base64::Engine as _;
use base64::engine::general_purpose::GeneralPurposeConfig;
use base64::engine::{DecodePaddingMode, GeneralPurpose};
use percent_encoding::percent_decode_str;
use tonic::Status;

use crate::service::call::intake::refusal;

/// URL-safe base64, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The query of a request.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a>(pub &'a str);

impl Query<'_> {
    /// Returns the first value of this name, decoded.
    pub fn get(self, name: &str) -> Option<Vec<u8>> {
        self.pairs().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| value)
    }

    /// Returns the first value of this name as text.
    pub fn text(self, name: &str) -> Option<String> {
        self.get(name).map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    fn pairs(self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.map(|(key, value)| (decoded(key), decoded(value)))
    }
}

/// Returns the request that a query holds; without one it is empty.
pub fn message(query: Query<'_>) -> Result<Vec<u8>, Status> {
    let given = query.get("message").unwrap_or_else(|| match query.get("encoding").as_deref() {
        None | Some(b"json") => b"{}".to_vec(),
        _ => Vec::new(),
    });
    match query.get("base64").as_deref() {
        Some(b"1") => BASE64
            .decode(&given)
            .map_err(|_| refusal::malformed("the message is no base64 for URLs")),
        _ => Ok(given),
    }
}

/// Decodes `%41` to `A` and `+` to a space; other bytes stay, as a `%` without two digits does.
pub fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query("a=1&b=%7B%22x%22%3a1%7d&c=a+b&empty&d=100%&a=2&e=%zz%4");
        let cases = [
            ("a", Some("1")),
            ("b", Some(r#"{"x":1}"#)),
            ("c", Some("a b")),
            ("empty", Some("")),
            ("d", Some("100%")),
            ("e", Some("%zz%4")),
            ("f", None),
        ];
        for (name, expected) in cases {
            assert_eq!(query.text(name).as_deref(), expected, "{name}");
        }
        for text in ["_-8", "_-8=", ""] {
            assert!(BASE64.decode(text).is_ok(), "{text}");
        }
        assert!(BASE64.decode(b"/+8").is_err());
    }
}

//! Pages: how many, and where to go on.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::limits::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX};
use crate::service::code::{Problem, Reason, Violation};

/// Entries to return: more than the limit is the limit, nothing is the default, less than nothing
/// is refused.
pub struct Page(pub usize);

impl Page {
    /// Reads `page_size`.
    pub fn from_wire(size: i32) -> Result<Page, Problem> {
        match usize::try_from(size) {
            Ok(0) => Ok(Page(PAGE_SIZE_DEFAULT)),
            Ok(size) => Ok(Page(size.min(PAGE_SIZE_MAX))),
            Err(_) => Err(Problem::of_fields(vec![Violation {
                field: "page_size".to_string(),
                reason: Reason::InvalidValue,
                description: format!("is {size}; give 1 to {PAGE_SIZE_MAX}, or nothing"),
            }])),
        }
    }
}

/// Where a list goes on. Carries what was asked, so that a token from elsewhere is noticed.
pub struct PageToken {
    asked: String,
}

impl PageToken {
    /// For the call and the fields of the request that decide what the list is.
    pub fn of(call: &str, fields: &[&str]) -> PageToken {
        PageToken { asked: format!("{call}\0{}", fields.join("\0")) }
    }

    /// The place that a token names; `None` at the start.
    pub fn read<T: DeserializeOwned>(&self, token: &str) -> Result<Option<T>, Problem> {
        if token.is_empty() {
            return Ok(None);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| Problem::page_token())?;
        let (check, place): (u32, T) =
            rmp_serde::from_slice(&bytes).map_err(|_| Problem::page_token())?;
        match check == crc32fast::hash(self.asked.as_bytes()) {
            true => Ok(Some(place)),
            false => Err(Problem::page_token()),
        }
    }

    /// The token for a place; empty at the end.
    pub fn write<T: Serialize>(&self, place: Option<&T>) -> String {
        let Some(place) = place else {
            return String::new();
        };
        let check = crc32fast::hash(self.asked.as_bytes());
        let bytes = rmp_serde::to_vec(&(check, place)).expect("a place is plain data");
        URL_SAFE_NO_PAD.encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_bound_to_what_was_asked() {
        let mine = PageToken::of("ListUnits", &["default", "web"]);
        let other = PageToken::of("ListUnits", &["default", "api"]);
        let token = mine.write(Some(&"web/3".to_string()));
        assert_eq!(mine.read::<String>(&token).unwrap().as_deref(), Some("web/3"));
        assert!(other.read::<String>(&token).is_err());
        assert!(mine.read::<String>("rubbish").is_err());
        assert!(mine.read::<String>("").unwrap().is_none());
        assert_eq!(mine.write::<String>(None), "");
    }

    #[test]
    fn page_sizes() {
        assert_eq!(Page::from_wire(0).unwrap().0, PAGE_SIZE_DEFAULT);
        assert_eq!(Page::from_wire(5000).unwrap().0, PAGE_SIZE_MAX);
        assert!(Page::from_wire(-1).is_err());
    }
}

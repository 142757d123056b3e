//! Pages of lists: their size, and the token of the next page.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::limits::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX};
use crate::service::code::{ApiError, Reason, Violation};

/// Reads `page_size`, the number of entries of a page. Larger values mean the maximum, 0 means the
/// default, and negative values are refused.
pub fn page_size(size: i32) -> Result<usize, ApiError> {
    match usize::try_from(size) {
        Ok(0) => Ok(PAGE_SIZE_DEFAULT),
        Ok(size) => Ok(size.min(PAGE_SIZE_MAX)),
        Err(_) => {
            let text = format!("is {size}; give 1 to {PAGE_SIZE_MAX}, or nothing");
            let violation = Violation::new("page_size", Reason::InvalidValue, text);
            let violation = violation.with("value", size).with("max", PAGE_SIZE_MAX);
            Err(ApiError::of_fields(vec![violation]))
        }
    }
}

/// Bytes after which a page, or a list within a message, ends: a quarter of what clients accept by
/// default, so that an answer with several lists fits too. The first entry always fits: the largest
/// is an operation, with about 700 KiB.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// Fills a page: as many entries as `count_max` and [`PAGE_BYTES_MAX`] allow, at least one. Also
/// returns the key of the last entry if there are more.
pub fn fill<K, T: Message>(
    entries: impl Iterator<Item = (K, T)>,
    count_max: usize,
) -> (Vec<T>, Option<K>) {
    let (mut page, mut bytes, mut last) = (Vec::new(), 0, None);
    for (place, entry) in entries {
        bytes += framed(&entry);
        let is_full = page.len() == count_max || !page.is_empty() && PAGE_BYTES_MAX < bytes;
        if is_full {
            return (page, last);
        }
        page.push(entry);
        last = Some(place);
    }
    (page, None)
}

/// Returns the first entries that fit into `bytes_max`, and the number of the others.
pub fn first_of<T: Message>(entries: impl Iterator<Item = T>, bytes_max: usize) -> (Vec<T>, usize) {
    let mut bytes = 0;
    let (first, rest): (Vec<T>, Vec<T>) = entries.partition(|entry| {
        bytes += framed(entry);
        bytes <= bytes_max
    });
    (first, rest.len())
}

/// Returns the bytes of an entry within a list, with its tag and its length.
pub fn framed(entry: &impl Message) -> usize {
    const TAG_AND_LENGTH: usize = 6;
    entry.encoded_len() + TAG_AND_LENGTH
}

/// One page of a list whose entries have keys.
pub struct Page<K> {
    /// Maximum entries.
    pub size: usize,
    /// The key of the last entry before the page; `None` at the start of the list.
    pub after: Option<K>,
    /// A checksum of the request, so that a token of another list is refused.
    check: u32,
}

impl<K: DeserializeOwned> Page<K> {
    /// Reads size and token of a request. `fields` are the others that determine the list.
    pub fn open(list: &str, fields: &[&str], size: i32, token: &str) -> Result<Page<K>, ApiError> {
        let size = page_size(size)?;
        let check = crc32fast::hash(format!("{list}\0{}", fields.join("\0")).as_bytes());
        if token.is_empty() {
            return Ok(Page { size, after: None, check });
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok();
        match bytes.and_then(|bytes| rmp_serde::from_slice::<(u32, K)>(&bytes).ok()) {
            Some((given, key)) if given == check => Ok(Page { size, after: Some(key), check }),
            _ => Err(ApiError::page_token(token)),
        }
    }

    /// Fills the page. Also returns the token of the next one.
    pub fn fill<T: Message>(
        &self,
        entries: impl Iterator<Item = (impl Serialize, T)>,
    ) -> (Vec<T>, String) {
        let (page, last) = fill(entries, self.size);
        (page, self.token(last))
    }

    /// Returns the token of the page after a key; empty at the end.
    pub fn token(&self, last: Option<impl Serialize>) -> String {
        let encode = |key| {
            let bytes = rmp_serde::to_vec(&(self.check, key)).expect("a key is plain data");
            URL_SAFE_NO_PAD.encode(bytes)
        };
        last.map(encode).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_bound_to_what_was_asked() {
        let open =
            |app, token: &str| Page::<String>::open("ListUnits", &["default", app], 0, token);
        let first = open("web", "").ok().unwrap();
        assert!(first.after.is_none());
        let token = first.token(Some("web/3"));
        assert_eq!(open("web", &token).ok().unwrap().after.as_deref(), Some("web/3"));
        assert!(open("api", &token).is_err());
        assert!(open("web", "rubbish").is_err());
        assert_eq!(first.token(None::<&str>), "");
    }

    fn entries(texts: &[usize]) -> impl Iterator<Item = (usize, String)> {
        texts.iter().map(|bytes| "x".repeat(*bytes)).enumerate()
    }

    #[test]
    fn a_page_ends_at_its_count_or_its_bytes_and_has_one_entry_at_least() {
        let half = PAGE_BYTES_MAX / 2 - 100;
        let cases: [(&[usize], usize, usize, Option<usize>); 6] = [
            (&[], 10, 0, None),
            (&[1, 1, 1], 10, 3, None),
            (&[1, 1, 1], 2, 2, Some(1)),
            (&[half, half], 10, 2, None),
            (&[half, half, half], 10, 2, Some(1)),
            (&[3 * half, 1], 10, 1, Some(0)),
        ];
        for (texts, count_max, expected, next) in cases {
            let (page, last) = fill(entries(texts), count_max);
            assert_eq!((page.len(), last), (expected, next), "{texts:?}");
        }
    }

    #[test]
    fn the_first_of_a_list_fit_and_the_rest_is_counted() {
        let list = |count| entries(&vec![94; count]).map(|(_, text)| text).collect::<Vec<_>>();
        // A text of 94 bytes is a message of 96, and 102 in a list.
        assert_eq!(first_of(list(10).into_iter(), 510).1, 5);
        assert_eq!(first_of(list(10).into_iter(), 5000).1, 0);
    }

    #[test]
    fn sizes_of_pages() {
        assert_eq!(page_size(0).unwrap(), PAGE_SIZE_DEFAULT);
        assert_eq!(page_size(5000).unwrap(), PAGE_SIZE_MAX);
        assert!(page_size(-1).is_err());
    }
}

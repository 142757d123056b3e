//! How many bytes an answer takes before it is rendered.

/// Bytes of an answer for itself: its stream, its task and its headers, measured at about 5 KiB. A
/// short answer, such as that to a report, has no more.
pub const CALL: usize = 6 << 10;

/// Bytes of an answer with one application. A read of one may wait for a revision, and thousands
/// may do so.
pub const ONE: usize = 16 << 10;

/// Bytes of an answer with a list: a page of `PAGE_BYTES_MAX`. One operation may have as much.
pub const LIST: usize = 1 << 20;

/// Bytes of the status page with what it reads.
pub const PAGE: usize = 8 << 20;

/// Bytes of a list in JSON while it is rendered: the records, their binary proto, the message
/// between the two formats, and the text with the room that it grew into.
pub const LIST_AS_JSON: usize = 8 * LIST;

/// The same for an answer with one application. It is small, and thousands of calls may wait for
/// one.
pub const ONE_AS_JSON: usize = 2 * ONE;

//! The words of an error that are names: its system and its reason.

/// Bytes of a reason: a type of problem+json is a URI.
const REASON_BYTES_MAX: usize = 253;

/// What a reason is, for errors.
pub const REASON: &str = "1 to 253 bytes of visible ASCII without spaces";

/// Returns whether a text can name a system. A system without a table is valid: custom rules may
/// match it.
pub fn is_system(text: &str) -> bool {
    let belongs = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
    };
    (1..=63).contains(&text.len()) && text.bytes().all(belongs)
}

/// Returns whether a text is a reason: the code of the service, as google.rpc.ErrorInfo,
/// Kubernetes, AWS or a type of problem+json has it.
pub fn is_reason(text: &str) -> bool {
    (1..=REASON_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

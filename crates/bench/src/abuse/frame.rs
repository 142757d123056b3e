//! Frames of HTTP/2 as bytes, also those that no client may send.

/// The first bytes of a connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// DATA.
pub const DATA: u8 = 0;
/// HEADERS.
pub const HEADERS: u8 = 1;
/// RST_STREAM.
pub const RST_STREAM: u8 = 3;
/// SETTINGS.
pub const SETTINGS: u8 = 4;
/// PING.
pub const PING: u8 = 6;
/// WINDOW_UPDATE.
pub const WINDOW_UPDATE: u8 = 8;
/// CONTINUATION.
pub const CONTINUATION: u8 = 9;

/// The flag END_STREAM.
pub const END_STREAM: u8 = 1;
/// The flag END_HEADERS.
pub const END_HEADERS: u8 = 4;

/// The setting of a stream's initial window.
pub const INITIAL_WINDOW: u16 = 4;

/// Appends a frame.
pub fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Returns the preface and the SETTINGS of a client.
pub fn greeting(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (key, value) in settings {
        payload.extend_from_slice(&key.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    let mut out = PREFACE.to_vec();
    frame(&mut out, SETTINGS, 0, 0, &payload);
    out
}

/// Returns the header block of a gRPC call, without an entry of the dynamic table.
pub fn call(path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    // Indexes of the static table: `:method: POST`, `:scheme: http`, then the name `:path`.
    let mut block = vec![0x83, 0x86, 0x04];
    text(&mut block, path);
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
        literal(&mut block, name, value);
    }
    fields.iter().for_each(|(name, value)| literal(&mut block, name, value));
    block
}

/// Returns the header block of a call by POST with this content type.
pub fn post(path: &str, kind: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x04];
    text(&mut block, path);
    literal(&mut block, ":authority", "127.0.0.1");
    literal(&mut block, "content-type", kind);
    block
}

/// Returns the header block of a request by GET.
pub fn get(path: &str) -> Vec<u8> {
    // Indexes of the static table: `:method: GET`, `:scheme: http`, then the name `:path`.
    let mut block = vec![0x82, 0x86, 0x04];
    text(&mut block, path);
    literal(&mut block, ":authority", "127.0.0.1");
    block
}

/// Appends a field that is not indexed.
pub fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    text(block, name);
    text(block, value);
}

/// Appends a text without Huffman coding: its length with a prefix of 7 bits, then its bytes.
pub fn text(block: &mut Vec<u8>, text: &str) {
    let length = text.len();
    match u8::try_from(length) {
        Ok(short) if short < 127 => block.push(short),
        _ => {
            block.push(127);
            let mut rest = length - 127;
            while 128 <= rest {
                block.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            block.push(rest as u8);
        }
    }
    block.extend_from_slice(text.as_bytes());
}

/// Returns the prefix of a gRPC message of this length.
pub fn promise(length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_be_bytes();
    [0, a, b, c, d]
}

/// Returns a gRPC message.
pub fn message(bytes: &[u8]) -> Vec<u8> {
    [&promise(u32::try_from(bytes.len()).unwrap_or(u32::MAX))[..], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_kind_flags_and_stream() {
        let mut out = Vec::new();
        frame(&mut out, PING, 1, 5, &[7; 8]);
        assert_eq!(out, [&[0, 0, 8, 6, 1, 0, 0, 0, 5][..], &[7; 8]].concat());
        assert_eq!(
            greeting(&[(INITIAL_WINDOW, 0)])[24..],
            [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]
        );
    }

    #[test]
    fn long_texts_have_their_length_in_several_bytes() {
        for (length, expected) in
            [(0, &[0][..]), (126, &[126]), (127, &[127, 0]), (255, &[127, 128, 1])]
        {
            let mut block = Vec::new();
            text(&mut block, &"x".repeat(length));
            assert_eq!(&block[..expected.len()], expected);
            assert_eq!(block.len(), expected.len() + length);
        }
        assert_eq!(message(b"ab"), [0, 0, 0, 0, 2, b'a', b'b']);
    }
}

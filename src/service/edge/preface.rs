//! Reads the first bytes of a connection: the preface of HTTP/2 and the SETTINGS of the client (RFC
//! 9113, section 3.4), or the head of the first request of HTTP/1.1. Nothing is set up for the
//! connection before.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame header of HTTP/2: length, type, flags, stream.
const HEADER_BYTES: usize = 9;
const SETTINGS: u8 = 4;
/// Maximum bytes of a frame before the server sends its SETTINGS, by the standard.
const FRAME_BYTES_MAX: usize = 16 << 10;

/// Maximum bytes of the head of the first request of HTTP/1.1. Its target may hold the message of a
/// method without side effects.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;

/// The first bytes of a connection, for its protocol to read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum First {
    /// The preface and the SETTINGS.
    Http2(Bytes),
    /// The head of a request, and maybe more.
    Http1(Bytes),
    /// A request of HTTP/1.1 whose head is too large.
    TooLarge,
}

/// What the client of such a request gets.
pub(super) const TOO_LARGE: &str = "HTTP/1.1 431 Request Header Fields Too Large\r\n\
    content-type: text/plain; charset=utf-8\r\ncontent-length: 46\r\nconnection: close\r\n\r\n\
    the head of a request has at most 65536 bytes\n";

/// Returns the first bytes; `None` if they are neither HTTP/2 nor HTTP/1.1, or the client has
/// disconnected.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<First> {
    let mut first = BytesMut::with_capacity(128);
    if fill(stream, &mut first, PREFACE.len() + HEADER_BYTES).await.is_none() {
        return head(stream, first).await;
    }
    let header = &first[PREFACE.len()..];
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
    if header[3] != SETTINGS || FRAME_BYTES_MAX < length {
        return None;
    }
    let whole = first.len() + length;
    fill(stream, &mut first, whole).await?;
    Some(First::Http2(first.freeze()))
}

/// Reads the head of a request, up to its empty line. Returns `None` as soon as the bytes cannot be
/// a request.
async fn head(stream: &mut (impl AsyncRead + Unpin), mut bytes: BytesMut) -> Option<First> {
    let mut searched = 0;
    loop {
        // The first word of a request is its method.
        let word = bytes.iter().take_while(|byte| **byte != b' ');
        if !word.clone().all(u8::is_ascii_uppercase) || bytes.is_empty() {
            return None;
        }
        if bytes[searched..].windows(4).any(|end| end == b"\r\n\r\n") {
            return Some(First::Http1(bytes.freeze()));
        }
        if HEAD_BYTES_MAX <= bytes.len() {
            return Some(First::TooLarge);
        }
        searched = bytes.len().saturating_sub(3);
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Reads up to `end` bytes in total and no further. Returns `None` as soon as they cannot be the
/// preface.
async fn fill(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut BytesMut,
    end: usize,
) -> Option<()> {
    while bytes.len() < end {
        let lacking = (end - bytes.len()) as u64;
        if stream.take(lacking).read_buf(bytes).await.ok()? == 0 {
            return None;
        }
        let known = bytes.len().min(PREFACE.len());
        if bytes[..known] != PREFACE[..known] {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    fn frame(length: u8, kind: u8) -> Vec<u8> {
        [PREFACE.as_slice(), &[0, 0, length, kind, 0, 0, 0, 0, 0]].concat()
    }

    #[tokio::test]
    async fn the_preface_and_the_settings_are_read_and_nothing_more() {
        let mut sent = frame(6, SETTINGS);
        sent.extend([0, 3, 0, 0, 0, 100]);
        let whole = sent.clone();
        sent.extend(b"more");
        let (mut near, mut far) = duplex(1);
        let writer = tokio::spawn(async move { far.write_all(&sent).await });
        assert_eq!(read(&mut near).await.unwrap(), First::Http2(whole.into()));
        let mut rest = [0; 4];
        near.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"more");
        writer.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn bytes_of_another_protocol_are_refused_with_the_first_line() {
        let mut huge = frame(0, SETTINGS);
        huge[PREFACE.len()] = 1;
        let ping = frame(0, 6);
        // The other end stays open, so a read must not wait for more.
        for sent in [&b"\x16\x03\x01"[..], b"hello\r\n", b"PRI-", &ping, &huge] {
            let (mut near, mut far) = duplex(HEAD_BYTES_MAX * 2);
            far.write_all(sent).await.unwrap();
            assert_eq!(read(&mut near).await, None, "{}", String::from_utf8_lossy(sent));
        }
        let endless = [b"GET /", [b'a'; HEAD_BYTES_MAX].as_slice()].concat();
        let (mut near, mut far) = duplex(HEAD_BYTES_MAX * 2);
        far.write_all(&endless).await.unwrap();
        assert_eq!(read(&mut near).await, Some(First::TooLarge));
        let (_, text) = TOO_LARGE.split_once("\r\n\r\n").unwrap();
        assert!(TOO_LARGE.contains(&format!("content-length: {}\r\n", text.len())));
        assert!(text.contains(&HEAD_BYTES_MAX.to_string()));
        for sent in [&b"PRI * HT"[..], b"GET / HTTP/1.1\r\nHost: a\r\n"] {
            let (mut near, mut far) = duplex(64);
            far.write_all(sent).await.unwrap();
            drop(far);
            assert_eq!(read(&mut near).await, None);
        }
    }

    #[tokio::test]
    async fn the_head_of_a_request_is_read_up_to_its_empty_line() {
        for sent in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"PRI * HTTP/1.1\r\n\r\n"] {
            let (mut near, mut far) = duplex(1);
            let writer = tokio::spawn(async move {
                far.write_all(sent).await.unwrap();
                far
            });
            assert_eq!(read(&mut near).await, Some(First::Http1(sent.into())));
            writer.await.unwrap();
        }
    }
}

//! Reads the first bytes of a connection: the preface of HTTP/2 and the SETTINGS of the client (RFC
//! 9113, section 3.4). Nothing is set up for the connection before.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame header of HTTP/2: length, type, flags, stream.
const HEADER_BYTES: usize = 9;
const SETTINGS: u8 = 4;
/// Maximum bytes of a frame before the server sends its SETTINGS, by the standard.
const FRAME_BYTES_MAX: usize = 16 << 10;

/// Returns the first bytes, for the HTTP/2 connection to read again; `None` if they are not HTTP/2,
/// or the client has disconnected.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Bytes> {
    let mut first = BytesMut::with_capacity(128);
    fill(stream, &mut first, PREFACE.len() + HEADER_BYTES).await?;
    let header = &first[PREFACE.len()..];
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
    if header[3] != SETTINGS || FRAME_BYTES_MAX < length {
        return None;
    }
    let whole = first.len() + length;
    fill(stream, &mut first, whole).await?;
    Some(first.freeze())
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
        assert_eq!(read(&mut near).await.unwrap(), whole);
        let mut rest = [0; 4];
        near.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"more");
        writer.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_is_no_http2_is_noticed_at_once() {
        let mut huge = frame(0, SETTINGS);
        huge[PREFACE.len()] = 1;
        let ping = frame(0, 6);
        // The other end stays open, so a read must not wait for more.
        for sent in [&b"GET / HTTP/1.1"[..], b"PRI * HTTP/1", &ping, &huge] {
            let (mut near, mut far) = duplex(64);
            far.write_all(sent).await.unwrap();
            assert_eq!(read(&mut near).await, None, "{sent:?}");
        }
        let (mut near, mut far) = duplex(64);
        far.write_all(b"PRI * HT").await.unwrap();
        drop(far);
        assert_eq!(read(&mut near).await, None);
    }
}

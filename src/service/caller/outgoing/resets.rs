//! Gives a reset stream its reason. The server resets a stream only because its peer takes nothing
//! of an answer, by dropping its task, and HTTP/2 calls that `CANCEL`: a client would take it for a
//! wish of its own. `ENHANCE_YOUR_CALM` is `RESOURCE_EXHAUSTED` for clients of gRPC.

/// Bytes of the header of a frame: length, type, flags, stream.
const HEADER_BYTES: usize = 9;
const RST_STREAM: u8 = 3;
const RST_STREAM_BYTES: usize = 4;
const CANCEL: u8 = 8;
const ENHANCE_YOUR_CALM: u8 = 11;

/// Follows the frames that a connection of HTTP/2 writes.
#[derive(Debug, Default)]
pub struct Resets {
    header: [u8; HEADER_BYTES],
    /// Bytes of the next header that are known.
    known: usize,
    /// Bytes of the payload that follow.
    rest: usize,
}

impl Resets {
    /// Changes the reason of resets in the next bytes of the connection.
    pub fn pass(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let taken = match self.rest {
                0 => self.take_header(bytes),
                rest => self.take_payload(rest, bytes),
            };
            bytes = &mut bytes[taken..];
        }
    }

    fn take_header(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(HEADER_BYTES - self.known);
        self.header[self.known..self.known + taken].copy_from_slice(&bytes[..taken]);
        self.known += taken;
        if self.known == HEADER_BYTES {
            let [high, middle, low, ..] = self.header;
            self.rest = u32::from_be_bytes([0, high, middle, low]) as usize;
            self.known = 0;
        }
        taken
    }

    fn take_payload(&mut self, rest: usize, bytes: &mut [u8]) -> usize {
        let taken = bytes.len().min(rest);
        self.rest -= taken;
        let is_reset = self.header[3] == RST_STREAM && self.header[..3] == [0, 0, 4];
        debug_assert!(!is_reset || rest <= RST_STREAM_BYTES);
        // All reasons are below 256.
        if is_reset && self.rest == 0 && bytes[taken - 1] == CANCEL {
            bytes[taken - 1] = ENHANCE_YOUR_CALM;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 1][..], payload].concat()
    }

    #[test]
    fn a_cancel_becomes_a_reason_however_the_bytes_are_divided() {
        let frames = |reason| {
            [
                frame(4, &[]),
                frame(0, &[0, 0, 0, CANCEL]),
                frame(RST_STREAM, &[0, 0, 0, reason]),
                frame(RST_STREAM, &[0, 0, 0, 5]),
                frame(8, &[0, 0, 0, CANCEL]),
                frame(RST_STREAM, &[0, 0, 0, reason]),
            ]
            .concat()
        };
        for step in 1..20 {
            let mut bytes = frames(CANCEL);
            let mut resets = Resets::default();
            bytes.chunks_mut(step).for_each(|part| resets.pass(part));
            assert_eq!(bytes, frames(ENHANCE_YOUR_CALM), "{step} at a time");
        }
    }
}

//! Compression of bodies, with a limit for what a compressed request may become.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use tonic::Status;

use crate::service::intake::refusal;

/// A smaller message is sent as it is: it fits into one packet.
const WORTH_BYTES_MIN: usize = 1024;

/// Decompresses a request of at most `bytes_max` bytes.
pub fn decompress(bytes: &[u8], bytes_max: usize) -> Result<Bytes, Status> {
    let mut plain = Vec::new();
    let limit = bytes_max as u64 + 1;
    let read = MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut plain);
    read.map_err(|error| refusal::malformed(format!("the request is no gzip: {error}")))?;
    match plain.len() <= bytes_max {
        true => Ok(plain.into()),
        false => Err(refusal::too_large(plain.len(), bytes_max)),
    }
}

/// Compresses an answer; `None` if it is too small.
pub fn compress(bytes: &[u8]) -> Option<Bytes> {
    if bytes.len() < WORTH_BYTES_MIN {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_comes_back_within_the_limit() {
        let plain = vec![b'a'; 100_000];
        let packed = compress(&plain).unwrap();
        assert!(packed.len() < 1000);
        assert_eq!(decompress(&packed, 100_000).unwrap(), plain);
        let refused = decompress(&packed, 99_999).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        let broken = decompress(b"no gzip", 99_999).unwrap_err();
        assert_eq!(broken.code(), tonic::Code::InvalidArgument);
        assert_eq!(compress(b"short"), None);
    }
}

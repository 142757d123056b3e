//! Compression of bodies, with a limit for what a compressed request may become.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, VARY};
use http::{HeaderValue, Response};
use tonic::Status;

use super::body::WebBody;
use crate::service::call::intake::refusal;

/// A smaller message is sent as it is: it fits into one packet.
const WORTH_BYTES_MIN: usize = 1024;

/// Bytes that any compressed request may become.
const PLAIN_BYTES_MIN: usize = 64 << 10;

/// How much compressed bytes may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inflation {
    /// Maximum bytes of the request.
    pub bytes_max: usize,
    /// Maximum ratio to the compressed bytes, if the request has more than 64 KiB.
    pub ratio_max: usize,
}

impl Inflation {
    /// Returns the bytes that so many compressed ones may become.
    pub fn plain_bytes_max(self, packed: usize) -> usize {
        self.bytes_max.min(packed.saturating_mul(self.ratio_max).max(PLAIN_BYTES_MIN))
    }

    /// Decompresses a request, and stops at the first byte above a limit.
    ///
    /// # Errors
    /// If the bytes are no gzip, or become too many.
    pub fn decompress(self, bytes: &[u8]) -> Result<Bytes, Status> {
        let mut plain = Vec::new();
        let most = self.plain_bytes_max(bytes.len());
        let read = MultiGzDecoder::new(bytes).take(most as u64 + 1).read_to_end(&mut plain);
        read.map_err(|error| refusal::malformed(format!("the request is no gzip: {error}")))?;
        match plain.len() {
            all if all <= most => Ok(plain.into()),
            all if self.bytes_max < all => Err(refusal::too_large(all, self.bytes_max)),
            _ => Err(refusal::too_compressed(bytes.len(), self.ratio_max)),
        }
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

/// What a client receives, and whether it is gzip.
pub type Encoded = (Bytes, bool);

/// Compresses an answer if the client reads gzip and the answer is not too small.
pub fn encoded(plain: Bytes, is_accepted: bool) -> Encoded {
    match is_accepted.then(|| compress(&plain)).flatten() {
        Some(packed) => (packed, true),
        None => (plain, false),
    }
}

/// Returns whether a client reads gzip.
pub fn is_accepted(accepted: &HeaderValue) -> bool {
    let encodings = accepted.to_str().unwrap_or_default().split(',');
    encodings.into_iter().any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let is_refused = matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Compresses an answer in one piece if the client reads gzip.
pub fn packed<B>(mut response: Response<WebBody<B>>, is_accepted: bool) -> Response<WebBody<B>> {
    let WebBody::Whole(Some(plain), _) = response.body() else { return response };
    let is_packed = response.headers().contains_key(CONTENT_ENCODING);
    let small = (is_accepted && !is_packed).then(|| compress(plain)).flatten();
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(small) = small {
        *response.body_mut() = WebBody::whole(small);
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_noise(bytes: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        noise.take(bytes).collect()
    }

    #[test]
    fn compressed_bodies_are_decompressed_within_the_limit() {
        let plain = mk_noise(100_000);
        let packed = compress(&plain).unwrap();
        let within = |bytes_max| Inflation { bytes_max, ratio_max: 2 };
        assert_eq!(within(100_000).decompress(&packed).unwrap(), plain);
        let refused = within(99_999).decompress(&packed).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        let broken = within(99_999).decompress(b"no gzip").unwrap_err();
        assert_eq!(broken.code(), tonic::Code::InvalidArgument);
        assert_eq!(compress(b"short"), None);
    }

    #[test]
    fn a_body_that_becomes_many_times_as_large_is_refused_early() {
        let limits = Inflation { bytes_max: 4 << 20, ratio_max: 100 };
        for (bytes, is_accepted) in [(64 << 10, true), ((64 << 10) + 1, false), (4 << 20, false)] {
            let packed = compress(&vec![b'a'; bytes]).unwrap();
            assert!(packed.len() * 100 < bytes || bytes <= 64 << 10, "{}", packed.len());
            let found = limits.decompress(&packed);
            assert_eq!(found.is_ok(), is_accepted, "{bytes}");
            let Err(refused) = found else { continue };
            assert!(refused.message().contains("compression_ratio_max"), "{refused}");
        }
        assert_eq!(limits.plain_bytes_max(1000), 100_000);
        assert_eq!(limits.plain_bytes_max(usize::MAX), 4 << 20);
    }

    #[test]
    fn gzip_is_used_if_it_is_accepted() {
        for (accepted, expected) in
            [("gzip", true), ("br, GZIP;q=0.5", true), ("gzip;q=0", false), ("br", false)]
        {
            assert_eq!(is_accepted(&accepted.parse().unwrap()), expected, "{accepted}");
        }
    }
}

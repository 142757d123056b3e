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
    let small = is_accepted.then(|| compress(plain)).flatten();
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

    #[test]
    fn compressed_bodies_are_decompressed_within_the_limit() {
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

    #[test]
    fn gzip_is_used_if_it_is_accepted() {
        for (accepted, expected) in
            [("gzip", true), ("br, GZIP;q=0.5", true), ("gzip;q=0", false), ("br", false)]
        {
            assert_eq!(is_accepted(&accepted.parse().unwrap()), expected, "{accepted}");
        }
    }
}

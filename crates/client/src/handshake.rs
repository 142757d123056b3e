//! Failed handshakes of TLS and HTTP/2 in words: what is wrong, and who can change it.

/// What the text of a cause contains, and the sentence for it.
const SENTENCES: [(&[&str], &str); 10] = [
    (
        &["tls handshake eof"],
        "it ended the TLS handshake; if it has no TLS, use http://, and if this is its ops port, \
         use that of the calls, 50051 by default",
    ),
    (
        &["UnknownIssuer", "unknown issuer", "BadSignature"],
        "its certificate is from an authority that is not trusted; give the CA of the server \
         with --ca",
    ),
    (
        &["CaUsedAsEndEntity"],
        "its certificate is that of an authority; give it one that is signed without CA:TRUE",
    ),
    (
        &["NotValidForName", "not valid for name"],
        "its certificate is for another name; use a name of the certificate in the address, or add \
         this one to the certificate",
    ),
    (
        &["invalid peer certificate: Expired", "certificate expired"],
        "its certificate has expired; renew it on the server, or check the clock of this machine",
    ),
    (
        &["NotValidYet", "not valid yet"],
        "its certificate is not valid yet; check the clocks of both machines",
    ),
    (
        &["CertificateRequired"],
        "it demands a certificate of the client; give one with --cert and --cert-key",
    ),
    (
        &["UnknownCA", "DecryptError", "BadCertificate", "AccessDenied", "CertificateUnknown"],
        "it does not trust the certificate of this client; get one of its CA",
    ),
    (&["CertificateExpired"], "the certificate of this client has expired; renew it"),
    (
        &["InvalidContentType", "corrupt message"],
        "it has no TLS; use http:// if it is on this machine, or give it a certificate",
    ),
];

/// What a server with TLS leaves behind when it refuses a client after the handshake, as with TLS
/// 1.3, and the alert that says so is lost. A server without TLS ends the connection too.
const CLOSED: [&str; 4] =
    ["connection closed", "onnection reset", "roken pipe", "connection was not ready"];
const AFTER_HANDSHAKE: &str = "it ended the connection; if it has no TLS, use http://; if it \
    demands a certificate of the client, give one of its CA with --cert and --cert-key";

/// What arrives where HTTP/2 is expected, from a server with TLS or one of HTTP/1.1.
const NO_FRAME: &str = "frame with invalid size";
const OTHER_PROTOCOL: &str = "it does not answer in gRPC without TLS; if it has TLS, use https://, \
    and if this is another port of it, use that of the calls, 50051 by default";

/// Returns the sentence for the text of a cause, if it is about the handshake with the server at
/// `url`.
pub(crate) fn sentence(url: &str, cause: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| cause.contains(word));
    let known = SENTENCES.iter().find(|(words, _)| has(words)).map(|(_, sentence)| *sentence);
    known.or_else(|| match url.starts_with("https:") {
        true => has(&CLOSED).then_some(AFTER_HANDSHAKE),
        false => has(&[NO_FRAME]).then_some(OTHER_PROTOCOL),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_about_tls_or_not() {
        let is_known = |url, cause| sentence(url, cause).is_some();
        assert!(is_known("https://h:1", "invalid peer certificate: UnknownIssuer"));
        assert!(is_known("https://h:1", "connection closed"));
        assert!(is_known("https://h:1", "connection was not ready"));
        assert!(!is_known("http://h:1", "connection closed"));
        assert!(is_known("h:1", "connection error detected: frame with invalid size"));
        assert!(!is_known("https://h:1", "connection refused"));
    }
}

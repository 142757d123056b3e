//! Failed TLS handshakes in words: what is wrong, and who can change it.

/// What the text of a cause contains, and the sentence for it.
const SENTENCES: [(&[&str], &str); 8] = [
    (
        &["UnknownIssuer", "unknown issuer", "BadSignature"],
        "its certificate is from an authority that is not trusted; give the CA of the server \
         with --ca",
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
/// 1.3, and the alert that says so is lost.
const CLOSED: [&str; 3] = ["connection closed", "onnection reset", "roken pipe"];
const AFTER_HANDSHAKE: &str = "it ended the connection; if it demands a certificate of the \
    client, give one of its CA with --cert and --cert-key";

/// Returns the sentence for the text of a cause, if it is about the TLS with the server at `url`.
pub(crate) fn sentence(url: &str, cause: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| cause.contains(word));
    let known = SENTENCES.iter().find(|(words, _)| has(words)).map(|(_, sentence)| *sentence);
    known.or_else(|| (url.starts_with("https:") && has(&CLOSED)).then_some(AFTER_HANDSHAKE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_about_tls_or_not() {
        let is_known = |url, cause| sentence(url, cause).is_some();
        assert!(is_known("https://h:1", "invalid peer certificate: UnknownIssuer"));
        assert!(is_known("https://h:1", "connection closed"));
        assert!(!is_known("http://h:1", "connection closed"));
        assert!(!is_known("https://h:1", "connection refused"));
    }
}

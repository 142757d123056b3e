//! Errors as the programs of the tables write them: each text and code is in the file that its row
//! names as the source.

use bellwether::domain::classify::finding::Class;

use crate::case::find;

fn are_of(system: &str, cases: &[(&str, &str, Class)]) {
    for (code, message, class) in cases {
        let found = find(system, code, message);
        assert_eq!(found.class, *class, "{system} {code} {message}, by {}", found.rule);
    }
}

#[test]
fn a_proxy_in_place_of_the_target_is_seen_in_every_client_of_grpc() {
    for message in [
        "unexpected HTTP status code received from server: 404 (Not Found)",
        "grpc-status header missing, mapped from HTTP status code 404",
        "Received HTTP status code 404",
        "Received http2 header with status: 404",
    ] {
        assert_eq!(find("grpc", "UNIMPLEMENTED", message).class, Class::Transient, "{message}");
    }
    are_of(
        "grpc",
        &[
            ("UNIMPLEMENTED", "unknown method Watch for service shop.v1.Cart", Class::Blocked),
            ("UNAVAILABLE", "Received HTTP status code 503", Class::Transient),
            ("UNAVAILABLE", "upstream max stream duration reached", Class::Transient),
            ("UNAVAILABLE", "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED", Class::Blocked),
            ("INTERNAL", "GOAWAY received; Error code: 0", Class::Transient),
            (
                "RESOURCE_EXHAUSTED",
                "Received message that decompresses to a size larger than 4194304",
                Class::Fatal,
            ),
        ],
    );
}

#[test]
fn texts_of_kubernetes_and_of_its_store_have_their_class() {
    are_of(
        "kubernetes",
        &[
            ("StorageReadError", "", Class::Transient),
            ("ResourceVersionTooLarge", "", Class::Transient),
            ("FieldManagerConflict", "", Class::Conflict),
            ("", "The resourceVersion for the provided list is too old.", Class::Conflict),
            ("", "spec.clusterIPs[0]: Invalid value: may not change once set", Class::Blocked),
            ("", "maximum cpu usage per Container is 1, but limit is 2", Class::Blocked),
            // The store of the API server is full, which only a person ends.
            ("", "etcdserver: mvcc: database space exceeded", Class::Blocked),
            ("", "etcdserver: request timed out", Class::Transient),
            ("", "etcdserver: request is too large", Class::Fatal),
        ],
    );
    assert_eq!(
        find("http", "500", "etcdserver: mvcc: database space exceeded").class,
        Class::Blocked
    );
    let denied = "ValidatingAdmissionPolicy 'sizes' with binding 'all' denied request: too large";
    assert_eq!(find("kubernetes", "", denied).class, Class::Blocked);
}

#[test]
fn results_of_systemd_have_their_class() {
    are_of(
        "systemd",
        &[
            ("231/APPARMOR", "", Class::Blocked),
            ("service-start-limit-hit", "", Class::Blocked),
            ("5/NOTINSTALLED", "", Class::Dependency),
            ("75/TEMPFAIL", "", Class::Transient),
            // Systemd gives the name to scripts of System V alone.
            ("4", "", Class::Unclassified),
            ("status=4/NOPERMISSION", "", Class::Blocked),
            ("Failed with result timeout", "", Class::Transient),
            ("unsupported", "", Class::Blocked),
            ("invalid", "", Class::Dependency),
            ("canceled", "", Class::Conflict),
            ("protocol", "", Class::Unclassified),
        ],
    );
    assert!(!find("systemd", "221/CONFIRM", "").holds());
    assert!(!find("systemd", "once", "").holds());
}

#[test]
fn errors_of_go_rust_and_node_have_their_class() {
    let plain = "http: server gave HTTP response to HTTPS client";
    are_of(
        "go",
        &[
            ("net.AddrError", "", Class::Blocked),
            ("tls.RecordHeaderError", "", Class::Blocked),
            ("url.Error", plain, Class::Blocked),
            ("net.OpError", "remote error: tls: bad certificate", Class::Blocked),
            ("", "http2: server sent GOAWAY and closed the connection", Class::Transient),
        ],
    );
    are_of(
        "rust",
        &[
            ("InvalidData", "", Class::Unclassified),
            ("OutOfMemory", "", Class::Transient),
            ("RowNotFound", "", Class::Dependency),
            ("", "pool timed out while waiting for an open connection", Class::Transient),
            ("", "host unreachable", Class::Transient),
        ],
    );
    are_of(
        "node",
        &[
            ("ESERVFAIL", "", Class::Transient),
            ("ERR_PROXY_TUNNEL", "", Class::Transient),
            ("CRL_HAS_EXPIRED", "", Class::Blocked),
            ("UND_ERR_RESPONSE", "", Class::Unclassified),
            ("", "connect ECONNREFUSED 127.0.0.1:5432", Class::Transient),
        ],
    );
}

#[test]
fn statuses_of_proxies_and_types_of_acme_have_their_class() {
    are_of(
        "http",
        &[
            ("561", "", Class::Blocked),
            ("463", "", Class::Blocked),
            ("599", "", Class::Transient),
            ("400", "urn:ietf:params:acme:error:onionCAARequired no CAA", Class::Blocked),
            ("409", "urn:ietf:params:acme:error:alreadyReplaced", Class::Conflict),
        ],
    );
    are_of(
        "acme",
        &[
            ("autoRenewalExpired", "", Class::Conflict),
            ("invalidProfile", "", Class::Blocked),
            ("", "too many new registrations (10) from this IP address", Class::Blocked),
        ],
    );
    assert!(!find("http", "561", "").holds());
}

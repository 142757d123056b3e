//! Stateless units that are killed and replaced under another name.

use std::time::Instant;

use crate::cli::{ok, run};
use crate::server::{DEADLINE, LOOK_EVERY, Server};

/// Looks at an application until its status is as expected.
fn until(server: &Server, application: &str, is_it: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let said = run(server, &["status", application]);
        if is_it(&said.out) {
            return said.out;
        }
        assert!(start.elapsed() < DEADLINE, "{}{}", said.out, said.err);
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn a_killed_pod_ends_once_its_successor_is_fresh_in_either_order() {
    let server = Server::ephemeral();
    for (application, hand_over, begins_before) in
        [("a", "none", true), ("b", "none", false), ("c", "any", true)]
    {
        let begin = |pod: &str, ttl: &str| {
            let unit = format!("{application}/{pod}");
            ok(&server, &["register", &unit, "--stateless", "--ttl", ttl]);
            ok(&server, &["report", &unit, "--level", "active"]);
        };
        begin("pod-a", "1s");
        let spans = ["--lost-after", "1s", "--replaced-after", "2s"];
        ok(&server, &[&["configure", application, "--hand-over", hand_over], &spans[..]].concat());
        if begins_before {
            begin("pod-b", "1h");
        }
        let lost = until(&server, application, |status| status.contains("1 lost !"));
        assert!(lost.contains("waiting"), "{lost}");
        if !begins_before {
            let why = ok(&server, &["why", application]);
            assert!(why.contains("it is removed once a successor is fresh"), "{why}");
            begin("pod-b", "1h");
        }
        let ended = until(&server, application, |status| !status.contains("pod-a"));
        assert!(ended.contains("active") && ended.contains("1/1"), "{ended}");
        let log = ok(&server, &["log", application]);
        assert!(log.contains(&format!("replaced by {application}/pod-b")), "{log}");
    }
}

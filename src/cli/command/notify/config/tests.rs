//! What a file may say, and what is refused with its line.

use super::file::parse;
use super::*;
use crate::cli::command::notify::engine::route::Levels;
use crate::proto::v1::Level;

const RECEIVER: &str = "[[to]]\nname = \"ops\"\nexec = [\"./tell\"]\n";
const ROUTE: &str = "[[route]]\nto = \"ops\"\n";

fn receiver(keys: &str) -> Result<Config, String> {
    parse(&format!("[[to]]\nname = \"ops\"\n{keys}\n{ROUTE}"))
}

#[test]
fn a_route_has_defaults() {
    let config = parse(&format!("{RECEIVER}{ROUTE}")).unwrap();
    assert_eq!((&*config.namespace, &*config.application), ("default", "bellwether-notify"));
    let [route] = &config.routes[..] else { panic!("{config:?}") };
    assert_eq!((&*route.name, &*route.to), ("ops", "ops"));
    assert_eq!(route.levels, Levels::AtLeast(Level::Blocked));
    assert_eq!(
        (route.stable_for, route.recover_after),
        (Duration::from_secs(60), route.stable_for)
    );
    assert!(!route.sends_marked && !route.each);
    assert_eq!(config.namespaces(), ["-"]);
}

#[test]
fn a_file_says_everything() {
    let text = "namespace = \"ops\"\napplication = \"notify\"\npage = \"https://s.example.com/\"\n\
                listen = \"127.0.0.1:0\"\n\
                [[to]]\nname = \"am\"\nalertmanager = \"http://am:9093\"\ninsecure = true\n\
                token_file = \"t\"\ntimeout = \"5s\"\n\
                [[to]]\nname = \"hook\"\nwebhook = \"https://h.example.com\"\nsecret_file = \"s\"\n\
                ca = \"ca.pem\"\n\
                [[route]]\nname = \"all\"\nto = \"am\"\nnamespaces = [\"prod\", \"infra\"]\n\
                applications = [\"web-*\"]\nlevels = [\"error\", \"waiting\"]\n\
                stable_for = \"0\"\nrecover_after = \"5m\"\nmarked = \"send\"\neach = true\n\
                [[route]]\nto = \"hook\"\nnamespaces = [\"prod\"]\nat_least = \"waiting\"\n";
    let config = parse(text).unwrap();
    assert_eq!(config.page.as_deref(), Some("https://s.example.com"));
    assert_eq!(config.namespaces(), ["infra", "prod"]);
    let [first, second] = &config.routes[..] else { panic!("{config:?}") };
    assert_eq!(first.levels, Levels::Of(vec![Level::Error, Level::Waiting]));
    assert_eq!(first.stable_for, Duration::ZERO);
    assert!(first.sends_marked && first.each && first.delivery.repeat_every.is_some());
    assert_eq!(second.delivery.repeat_every, None);
    assert_eq!(config.receivers[0].timeout, Duration::from_secs(5));
    assert!(matches!(&config.receivers[1].target, Destination::Webhook(it, _) if it.ca.is_some()));
}

#[test]
fn a_mistake_is_named_with_its_line() {
    for (text, expected) in [
        (String::new(), "no receiver"),
        (RECEIVER.to_string(), "no [[route]]"),
        (format!("{RECEIVER}secret = \"x\"\n{ROUTE}"), "line 4"),
        (format!("{RECEIVER}{ROUTE}level = \"x\"\n"), "unknown field `level`"),
        (format!("nmespace = \"x\"\n{RECEIVER}{ROUTE}"), "unknown field `nmespace`"),
        (format!("namespace = \"a b\"\n{RECEIVER}{ROUTE}"), "namespace"),
        (format!("page = \"s\"\n{RECEIVER}{ROUTE}"), "not the address of a status page"),
        (format!("{RECEIVER}{RECEIVER}{ROUTE}"), "line 4: `ops` is there already"),
        (format!("{RECEIVER}{ROUTE}{ROUTE}"), "line 6: the route `ops` is there already"),
        (format!("{RECEIVER}[[route]]\nto = \"op\"\n"), "line 4: there is no receiver `op`"),
        (format!("{RECEIVER}{ROUTE}levels = [\"bad\"]\n"), "`bad` is no level"),
        (format!("{RECEIVER}{ROUTE}levels = []\nat_least = \"error\"\n"), "not both"),
        (format!("{RECEIVER}{ROUTE}stable_for = \"9\"\n"), "stable_for: `9` is no span"),
        (format!("{RECEIVER}{ROUTE}recover_after = \"8d\"\n"), "longer than 7d"),
        (format!("{RECEIVER}{ROUTE}marked = \"no\"\n"), "neither skip nor send"),
        (format!("{RECEIVER}{ROUTE}namespaces = [\"a/b\"]\n"), "`a/b` is no pattern"),
        (format!("{RECEIVER}{ROUTE}name = \"a b\"\n"), "`a b` is no name"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected), "{expected:?} is not in: {error}");
    }
    for (keys, expected) in [
        ("", "write one of alertmanager, webhook and exec"),
        ("exec = []", "`exec` is empty"),
        ("exec = [\"a\"]\ninsecure = true", "exec takes no"),
        ("exec = [\"a\"]\nwebhook = \"https://h\"", "write one of"),
        ("webhook = \"https://h\"", "needs secret_file"),
        ("alertmanager = \"https://h\"\nsecret_file = \"s\"", "takes no secret_file"),
        ("alertmanager = \"http://am:9093\"", "without TLS"),
        ("alertmanager = \"http://10.0.0.1\"", "insecure = true"),
        ("alertmanager = \"ftp://h\"", "needs http"),
        ("alertmanager = \"/x\"", "no host"),
        ("exec = [\"a\"]\ntimeout = \"0\"", "`timeout` is 0"),
        ("exec = [\"a\"]\ntimeout = \"1h\"", "longer than 5m"),
    ] {
        let error = receiver(keys).unwrap_err();
        assert!(error.contains(expected), "{expected:?} is not in: {error}");
    }
}

#[test]
fn this_machine_needs_no_tls_and_no_message_has_a_password() {
    for url in ["http://localhost:1", "http://127.9.9.9", "http://[::1]:9093/am", "https://h"] {
        assert!(receiver(&format!("alertmanager = \"{url}\"")).is_ok(), "{url}");
    }
    let error = receiver("alertmanager = \"https://me:hunter2@h\"").unwrap_err();
    assert!(error.contains("has a user") && !error.contains("hunter2"), "{error}");
}

#[test]
fn a_file_has_64_receivers_and_256_routes_at_most() {
    let receivers = |count: usize| -> String {
        (0..count).map(|n| format!("[[to]]\nname = \"r{n}\"\nexec = [\"a\"]\n")).collect()
    };
    let routes = |count: usize| -> String {
        (0..count).map(|n| format!("[[route]]\nname = \"n{n}\"\nto = \"r0\"\n")).collect()
    };
    assert!(parse(&(receivers(64) + &routes(256))).is_ok());
    let error = parse(&(receivers(65) + &routes(1))).unwrap_err();
    assert!(error.contains("65 receivers are more than 64"), "{error}");
    let error = parse(&(receivers(1) + &routes(257))).unwrap_err();
    assert!(error.contains("257 routes are more than 256"), "{error}");
}

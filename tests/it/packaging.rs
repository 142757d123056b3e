//! The files of the packages: the server accepts the example configuration, with every line of it
//! turned on.

use std::process::{Command, Output};

use crate::server::BINARY;

const EXAMPLE: &str = include_str!("../../packaging/bellwether.toml");

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

#[test]
fn the_example_configuration_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        let output = run(&["config", "check", "--config", path.to_str().unwrap()]);
        assert!(output.status.success(), "{name}: {output:?}");
    };
    check("as-it-is.toml", EXAMPLE);
    let password = directory.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    let turned_on = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting.to_string(),
        _ => line.to_string(),
    };
    let all: Vec<String> = EXAMPLE.lines().map(turned_on).collect();
    assert!(10 < all.iter().filter(|line| line.contains(" = ")).count());
    let all = all.join("\n");
    let there = all.replace("/etc/bellwether/store-password", password.to_str().unwrap());
    assert_ne!(all, there);
    check("all.toml", &there);
}

#[test]
fn the_services_start_commands_that_exist() {
    for unit in [
        include_str!("../../packaging/bellwether.service"),
        include_str!("../../packaging/bellwether-resume@.service"),
        include_str!("../../packaging/bellwether-notify.service"),
        include_str!("../../packaging/bellwether-relay.service"),
    ] {
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let arguments: Vec<&str> = start.split(' ').collect();
        assert_eq!(arguments[0], "/usr/bin/bellwether");
        let output = run(&[&arguments[1..], &["--help"]].concat());
        assert!(output.status.success(), "{output:?}");
    }
}

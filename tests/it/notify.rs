//! The notifications for a service manager.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::server::{DEADLINE, Server, command};

/// Starts a server with a socket of a service manager, and returns what the manager receives.
fn test_life(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut serve = command(&["--ephemeral"]);
    serve.env("NOTIFY_SOCKET", name);
    let mut server = Server::spawn(serve);
    let received = || {
        let mut buffer = [0; 512];
        loop {
            match socket.recv(&mut buffer) {
                Ok(length) => return String::from_utf8(buffer[..length].to_vec()).unwrap(),
                // By the end of a process of another test.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    assert_eq!(received(), format!("READY=1\nSTATUS=serving http://{}", server.grpc));
    // The reload of a service manager does not end a server without files.
    server.signal("HUP");
    server.terminate();
    assert_eq!(received(), "STOPPING=1\nSTATUS=draining");
    assert_eq!(server.wait().code(), Some(0));
    socket.set_nonblocking(true).unwrap();
    assert_eq!(socket.recv(&mut [0; 512]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_service_manager_is_notified_of_the_start_and_of_the_drain() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    test_life(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
}

#[test]
fn the_socket_may_be_in_the_abstract_namespace() {
    let name = format!("bellwether-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    test_life(&UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}

#[test]
fn a_socket_that_is_gone_does_not_stop_the_server() {
    let mut serve = command(&["--ephemeral"]);
    serve.env("NOTIFY_SOCKET", "/nowhere/notify");
    let mut server = Server::spawn(serve);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

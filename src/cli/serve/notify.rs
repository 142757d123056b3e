//! Notifies the service manager, as `Type=notify` of systemd expects: sd_notify(3).
//!
//! A datagram to the socket that `NOTIFY_SOCKET` names says that the server is ready, or stops.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket of the service manager.
#[derive(Debug, Clone)]
pub struct Notifier(Option<OsString>);

impl Notifier {
    /// Returns the notifier of this process; without a service manager it does nothing.
    pub fn from_env() -> Notifier {
        Notifier(env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()))
    }

    /// Returns whether a service manager waits for notifications.
    pub fn is_managed(&self) -> bool {
        self.0.is_some()
    }

    /// Notifies that the ports are open and the store too.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Notifies that the server drains.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=draining");
    }

    /// The server serves without a service manager too, so a failure is a warning.
    fn send(&self, state: &str) {
        let Some(name) = &self.0 else { return };
        let sent = UnixDatagram::unbound()
            .and_then(|socket| socket.send_to_addr(state.as_bytes(), &address(name)?));
        if let Err(error) = sent {
            tracing::warn!(%error, socket = %name.display(), "notify the service manager");
        }
    }
}

/// Returns the address of a path; a name that starts with `@` is in the abstract namespace of
/// Linux.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(name)
}

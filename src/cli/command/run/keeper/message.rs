//! The messages between the runner and the keeper: a letter and a number, nine bytes each.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The bytes of a message.
const LENGTH: usize = 9;

/// What the runner says to the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToKeeper {
    /// A heartbeat that was sent at this time since the boot is acknowledged.
    Renewed(Duration),
    /// The command is to end.
    End,
    /// The command must end at once.
    Kill,
}

/// What the keeper says to the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromKeeper {
    /// The command runs, as this process and group.
    Started(i32),
    /// No process of the command is left: its exit code, or the number of a signal below zero.
    Ended(i32),
}

impl ToKeeper {
    /// Returns the bytes.
    pub fn encode(self) -> [u8; LENGTH] {
        match self {
            ToKeeper::Renewed(at) => message(b'R', at.as_nanos() as u64),
            ToKeeper::End => message(b'E', 0),
            ToKeeper::Kill => message(b'K', 0),
        }
    }

    /// Reads the bytes; `None` for bytes of another program.
    pub fn decode([letter, number @ ..]: [u8; LENGTH]) -> Option<ToKeeper> {
        match letter {
            b'R' => Some(ToKeeper::Renewed(Duration::from_nanos(u64::from_le_bytes(number)))),
            b'E' => Some(ToKeeper::End),
            b'K' => Some(ToKeeper::Kill),
            _ => None,
        }
    }
}

impl FromKeeper {
    /// Returns the bytes.
    pub fn encode(self) -> [u8; LENGTH] {
        match self {
            FromKeeper::Started(process) => message(b'S', i64::from(process).cast_unsigned()),
            FromKeeper::Ended(code) => message(b'X', i64::from(code).cast_unsigned()),
        }
    }

    /// Reads the bytes; `None` for bytes of another program.
    pub fn decode([letter, number @ ..]: [u8; LENGTH]) -> Option<FromKeeper> {
        let number = i32::try_from(i64::from_le_bytes(number)).ok()?;
        match letter {
            b'S' => Some(FromKeeper::Started(number)),
            b'X' => Some(FromKeeper::Ended(number)),
            _ => None,
        }
    }
}

fn message(letter: u8, number: u64) -> [u8; LENGTH] {
    let mut bytes = [letter; LENGTH];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Sends a message.
///
/// # Errors
/// If the other process has ended.
pub async fn send(to: &mut OwnedWriteHalf, message: [u8; LENGTH]) -> io::Result<()> {
    to.write_all(&message).await
}

/// The messages of the other process.
#[derive(Debug)]
pub struct Inbox {
    from: OwnedReadHalf,
    /// The beginning of a message.
    begun: Vec<u8>,
}

impl Inbox {
    /// Reads from a socket.
    pub fn new(from: OwnedReadHalf) -> Inbox {
        Inbox { from, begun: Vec::new() }
    }

    /// Returns the next message; `None` after the end of the other process. Cancel safe.
    pub async fn next(&mut self) -> Option<[u8; LENGTH]> {
        loop {
            if let Some((message, _)) = self.begun.split_first_chunk::<LENGTH>() {
                let message = *message;
                self.begun.drain(..LENGTH);
                return Some(message);
            }
            match self.from.read_buf(&mut self.begun).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for message in [ToKeeper::Renewed(Duration::new(86_400, 7)), ToKeeper::End, ToKeeper::Kill]
        {
            assert_eq!(ToKeeper::decode(message.encode()), Some(message));
            assert_eq!(FromKeeper::decode(message.encode()), None);
        }
        for message in [FromKeeper::Started(77), FromKeeper::Ended(3), FromKeeper::Ended(-9)] {
            assert_eq!(FromKeeper::decode(message.encode()), Some(message));
            assert_eq!(ToKeeper::decode(message.encode()), None);
        }
    }

    #[tokio::test]
    async fn parts_of_messages_are_put_together() {
        let (one, other) = tokio::net::UnixStream::pair().unwrap();
        let (mut inbox, (_read, mut to)) = (Inbox::new(one.into_split().0), other.into_split());
        let bytes = [ToKeeper::End.encode(), ToKeeper::Kill.encode()].concat();
        to.write_all(&bytes[..4]).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(20), inbox.next());
        assert!(early.await.is_err());
        to.write_all(&bytes[4..]).await.unwrap();
        assert_eq!(inbox.next().await, Some(ToKeeper::End.encode()));
        assert_eq!(inbox.next().await, Some(ToKeeper::Kill.encode()));
        drop((_read, to));
        assert_eq!(inbox.next().await, None);
    }
}

//! The reply to a command.

use redis::Value;

use super::Text;

/// A reply, as RESP2 has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A number.
    Number(i64),
    /// A status, such as `OK`.
    Status(&'static str),
    /// Bytes.
    Bulk(Text),
    /// Several replies.
    Array(Vec<Reply>),
    /// An error: a code and a sentence.
    Error(String),
}

impl Reply {
    /// The reply of a command without a result.
    pub const OK: Reply = Reply::Status("OK");

    /// Returns bytes, or no value.
    pub fn of(value: Option<&Text>) -> Reply {
        value.map_or(Reply::Nil, |value| Reply::Bulk(value.clone()))
    }

    /// Returns a number that counts something.
    pub fn count(count: usize) -> Reply {
        Reply::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns the refusal of a command whose arguments are wrong.
    pub fn syntax() -> Reply {
        Reply::Error("ERR syntax error".to_string())
    }

    /// Returns whether the command was refused.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Reply::Nil => to.extend_from_slice(b"$-1\r\n"),
            Reply::Number(number) => to.extend_from_slice(format!(":{number}\r\n").as_bytes()),
            Reply::Status(status) => to.extend_from_slice(format!("+{status}\r\n").as_bytes()),
            Reply::Error(error) => to.extend_from_slice(format!("-{error}\r\n").as_bytes()),
            Reply::Bulk(bytes) => {
                to.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
                to.extend_from_slice(bytes);
                to.extend_from_slice(b"\r\n");
            }
            Reply::Array(items) => {
                to.extend_from_slice(format!("*{}\r\n", items.len()).as_bytes());
                items.iter().for_each(|item| item.encode(to));
            }
        }
    }

    /// Returns the reply as the client library hands it out.
    pub fn into_value(self) -> Value {
        match self {
            Reply::Nil => Value::Nil,
            Reply::Number(number) => Value::Int(number),
            Reply::Status("OK") => Value::Okay,
            Reply::Status(status) => Value::SimpleString(status.to_string()),
            Reply::Bulk(bytes) => Value::BulkString(bytes),
            Reply::Array(items) => Value::Array(items.into_iter().map(Reply::into_value).collect()),
            // The library alone makes its errors.
            Reply::Error(_) => {
                let mut bytes = Vec::new();
                self.encode(&mut bytes);
                redis::parse_redis_value(&bytes).unwrap_or(Value::Nil)
            }
        }
    }
}

//! A receiver of HTTP: keeps what is posted to it, and answers with the status that the test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::server::{DEADLINE, LOOK_EVERY};

/// A request with its headers, in lower case, and its body.
#[derive(Debug, Clone)]
pub struct Posted {
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub at: Instant,
}

impl Posted {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// The receiver; it ends with the test.
pub struct HttpReceiver {
    pub address: SocketAddr,
    posted: Arc<Mutex<Vec<Posted>>>,
    status: Arc<AtomicU16>,
    ended: Arc<AtomicBool>,
}

impl HttpReceiver {
    pub fn start() -> HttpReceiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = HttpReceiver {
            address: listener.local_addr().unwrap(),
            posted: Arc::default(),
            status: Arc::new(AtomicU16::new(200)),
            ended: Arc::default(),
        };
        let (posted, status) = (receiver.posted.clone(), receiver.status.clone());
        let ended = receiver.ended.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (posted, status) = (posted.clone(), status.clone());
                std::thread::spawn(move || while answer(&stream, &posted, &status).is_some() {});
            }
        });
        receiver
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the status of all answers from now on.
    pub fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    pub fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }

    /// Waits until what was posted is as wanted, and returns it.
    pub fn until(&self, what: &str, wanted: impl Fn(&[Posted]) -> bool) -> Vec<Posted> {
        let start = Instant::now();
        loop {
            // Looked at in place: thousands of messages are not copied at each look.
            if wanted(&self.posted.lock().unwrap()) {
                return self.posted();
            }
            let posted = self.posted.lock().unwrap();
            let seen = || posted.iter().map(|it| String::from_utf8_lossy(&it.body).into_owned());
            assert!(start.elapsed() < DEADLINE, "{what}: {:#?}", seen().collect::<Vec<_>>());
            drop(posted);
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for HttpReceiver {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
    }
}

/// Reads and answers one request; `None` at the end of the connection.
fn answer(stream: &TcpStream, posted: &Mutex<Vec<Posted>>, status: &AtomicU16) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|length| 0 < *length)?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_string()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    posted.lock().unwrap().push(Posted { headers, body, at: Instant::now() });
    let status = status.load(Ordering::Relaxed);
    let mut writer = stream;
    write!(writer, "HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").ok()
}

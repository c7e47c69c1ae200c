//! A small HTTP server on loopback: fixed bodies by path, a body that breaks off where a test wants it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What a path answers.
#[derive(Clone)]
pub(crate) enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// Announced whole, sent by half.
    Cut(Vec<u8>),
}

/// Serves until the test process ends.
pub(crate) struct Server {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn new(bodies: BTreeMap<String, Body>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &bodies, &noted);
            }
        });
        Self { address, asked }
    }

    /// Paths that were asked for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, bodies: &BTreeMap<String, Body>, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap())
        .lines()
        .map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap().to_owned();
    for _ in lines.take_while(|line| !line.is_empty()) {}
    let (status, bytes, sent) = match bodies.get(&path) {
        Some(Body::Whole(bytes)) => ("200 OK", bytes.as_slice(), bytes.len()),
        Some(Body::Cut(bytes)) => ("200 OK", bytes.as_slice(), bytes.len() / 2),
        None => ("404 Not Found", [].as_slice(), 0),
    };
    asked.lock().unwrap().push(path);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    );
    // A client that has heard enough closes; that is no fault of the server.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&bytes[..sent]);
}

//! Model folders from a hub: a small server on loopback stands in for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ripplekv_model::fetch::{Hub, HubError};
use ripplekv_model::tokenizer::TextTokenizer;

use crate::support::fixture;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const NAME: &str = "tide/tables";

/// Serves one repository; notes the paths that were asked for.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn with(files: BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        // Ends with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &files, &noted);
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

fn answer(stream: TcpStream, files: &BTreeMap<String, Vec<u8>>, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap())
        .lines()
        .map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let mut start_byte = 0;
    let mut only_one = false;
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some(range) = line.to_lowercase().strip_prefix("range: bytes=") {
            start_byte = range.split('-').next().unwrap().parse().unwrap();
            only_one = range == "0-0";
        }
    }
    asked.lock().unwrap().push(path.clone());
    let file = path
        .strip_prefix(&format!("/{NAME}/resolve/{COMMIT}/"))
        .and_then(|name| files.get(name).map(|bytes| (name, bytes)));
    let (status, headers, body) = if path == format!("/api/models/{NAME}/revision/main") {
        let siblings: Vec<_> = files
            .keys()
            .map(|name| serde_json::json!({"rfilename": name}))
            .collect();
        let body = serde_json::json!({"sha": COMMIT, "siblings": siblings}).to_string();
        ("200 OK", String::new(), body.into_bytes())
    } else if let Some((name, bytes)) = file {
        let end = if only_one {
            1.min(bytes.len())
        } else {
            bytes.len()
        };
        let headers = format!(
            "ETag: \"etag-{name}\"\r\nX-Repo-Commit: {COMMIT}\r\nContent-Range: bytes {start_byte}-{}/{}\r\n",
            end.saturating_sub(1),
            bytes.len()
        );
        (
            "206 Partial Content",
            headers,
            bytes[start_byte..end].to_vec(),
        )
    } else if path.contains("gated") {
        ("401 Unauthorized", String::new(), Vec::new())
    } else {
        ("404 Not Found", String::new(), Vec::new())
    };
    let mut stream = stream;
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
}

fn files_of(folder: &str) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(fixture(folder))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

#[test]
fn a_sharded_folder_is_downloaded_once() {
    let cache = tempfile::tempdir().unwrap();
    let mut files = files_of("tiny-llama3-rope-bf16-sharded");
    files.insert("README.md".to_owned(), b"not wanted".to_vec());
    files.insert("pytorch_model.bin".to_owned(), b"not wanted".to_vec());
    let server = Server::with(files);
    let hub = Hub::at(cache.path(), &server.address);
    assert_eq!(hub.cached(NAME, "main"), None);

    let folder = hub.fetch(NAME, "main").unwrap();
    assert!(
        folder.ends_with(format!("snapshots/{COMMIT}")),
        "{folder:?}"
    );
    for (name, bytes) in files_of("tiny-llama3-rope-bf16-sharded") {
        assert_eq!(fs::read(folder.join(&name)).unwrap(), bytes, "{name}");
    }
    assert!(!folder.join("README.md").exists());
    TextTokenizer::from_folder(&folder).unwrap();
    assert!(
        server
            .asked()
            .iter()
            .all(|path| !path.contains("not wanted") && !path.ends_with("bin"))
    );

    assert_eq!(hub.cached(NAME, "main"), Some(folder.clone()));
    assert_eq!(hub.fetch(NAME, "main").unwrap(), folder);
    assert_eq!(server.asked(), [""; 0]);

    // A shard that went missing is all that is fetched again.
    let shard = "model-00002-of-00003.safetensors";
    fs::remove_file(folder.join(shard)).unwrap();
    assert_eq!(hub.cached(NAME, "main"), None);
    hub.fetch(NAME, "main").unwrap();
    let asked = server.asked();
    assert!(
        asked
            .iter()
            .all(|path| path.contains("/api/") || path.ends_with(shard))
            && asked.len() > 1,
        "{asked:?}"
    );
}

#[test]
fn one_file_of_weights_is_enough() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::with(files_of("tiny-plain-f32"));
    let folder = Hub::at(cache.path(), &server.address)
        .fetch(NAME, "main")
        .unwrap();
    let expected = fs::read(fixture("tiny-plain-f32").join("model.safetensors")).unwrap();
    assert_eq!(
        fs::read(folder.join("model.safetensors")).unwrap(),
        expected
    );
}

#[test]
fn what_a_repository_lacks_is_named() {
    for missing in ["config.json", "tokenizer.json", "model.safetensors"] {
        let cache = tempfile::tempdir().unwrap();
        let mut files = files_of("tiny-plain-f32");
        files.remove(missing);
        let server = Server::with(files);
        let hub = Hub::at(cache.path(), &server.address);
        let error = hub.fetch(NAME, "main").unwrap_err();
        assert!(
            matches!(&error, HubError::MissingFile { file, .. } if file == missing),
            "{error}"
        );
        assert_eq!(hub.cached(NAME, "main"), None);
    }
}

#[test]
fn refusals_and_absent_networks_are_told_apart() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::with(BTreeMap::new());
    let hub = Hub::at(cache.path(), &server.address);
    for (name, revision, status) in [
        ("tide/gated", "main", "401"),
        ("tide/absent", "main", "404"),
        (NAME, "no-such-branch", "404"),
    ] {
        let error = hub.fetch(name, revision).unwrap_err();
        assert!(matches!(error, HubError::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(status) && text.contains("HF_TOKEN") && text.contains(name),
            "{text}"
        );
    }
    assert!(matches!(
        hub.fetch("gpt2", "main"),
        Err(HubError::BadName { .. })
    ));

    let start = Instant::now();
    let error = Hub::at(cache.path(), "http://127.0.0.1:1")
        .fetch(NAME, "main")
        .unwrap_err();
    assert!(matches!(error, HubError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");

    // A server that takes the connection and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let error = Hub::at(cache.path(), &address)
        .fetch(NAME, "main")
        .unwrap_err();
    assert!(error.to_string().contains("no answer within"), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    assert!(fs::read_dir(cache.path()).unwrap().next().is_none());
}

//! Models by name from a hub: against a server on the loopback interface that behaves as a hub does.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use crate::support::{Tiny, assert_fails, command, stdout};

/// What the server does, and what it saw.
#[derive(Default)]
struct State {
    file: Vec<u8>,
    /// Downloads that end in the middle before one is answered in full.
    cuts: usize,
    /// First byte of each request for a range.
    ranges: Vec<u64>,
    paths: Vec<String>,
}

struct Hub {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Hub {
    fn start(file: Vec<u8>, cuts: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { file, cuts, ..State::default() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that went away is no business of the server.
                let _ = stream.and_then(|stream| answer(stream, &shared));
            }
        });
        Self { address, state }
    }

    /// Runs `engine info` on a model of this hub, with the cache in `home`.
    fn info(&self, home: &Path, model: &str) -> Output {
        command(&["info", "--json", "--model", model])
            .env("HF_HOME", home)
            .env("HF_ENDPOINT", &self.address)
            .env("NO_PROXY", "127.0.0.1")
            .env_remove("http_proxy")
            .env_remove("HTTP_PROXY")
            .env_remove("ALL_PROXY")
            .output()
            .unwrap()
    }

    fn ranges(&self) -> Vec<u64> {
        self.state.lock().unwrap().ranges.clone()
    }
}

/// One request, one answer, and the connection is closed.
fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut first = 0;
    let mut probe = false;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            let (from, to) = range.split_once('-').unwrap();
            first = from.parse().unwrap();
            probe = !to.is_empty();
        }
    }
    let mut state = state.lock().unwrap();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    state.paths.push(path.clone());
    if path != "/org/repo/resolve/main/tiny.gguf" {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let total = state.file.len();
    let last = if probe { first } else { total as u64 - 1 };
    let body = state.file[first as usize..=last as usize].to_vec();
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nETag: \"tag\"\r\nX-Repo-Commit: 0123abcd\r\nContent-Range: bytes \
         {first}-{last}/{total}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    let mut end = body.len();
    if !probe {
        state.ranges.push(first);
        if state.cuts > 0 {
            state.cuts -= 1;
            end /= 2;
        }
    }
    stream.write_all(&body[..end])
}

const MODEL: &str = "hf:org/repo/tiny.gguf";

#[test]
fn a_model_is_fetched_once_and_then_found_in_the_cache() {
    let (home, file) = (tempfile::tempdir().unwrap(), Tiny::default().file());
    let hub = Hub::start(file.clone(), 0);
    let first = stdout(&hub.info(home.path(), MODEL));
    assert!(first.contains(&blake3::hash(&file).to_hex().to_string()), "{first}");
    assert_eq!(hub.ranges(), [0]);
    stdout(&hub.info(home.path(), MODEL));
    assert_eq!(hub.ranges(), [0], "the second run fetched again");
}

#[test]
fn a_download_that_is_cut_off_goes_on_where_it_ended() {
    let (home, file) = (tempfile::tempdir().unwrap(), Tiny::default().file());
    // More cuts than one run tries again: it fails, and the next run goes on.
    let hub = Hub::start(file.clone(), 3);
    let output = hub.info(home.path(), MODEL);
    assert_fails(&output, 3, &["hf:org/repo/tiny.gguf", "run the command again"]);
    let out = stdout(&hub.info(home.path(), MODEL));
    assert!(out.contains(&blake3::hash(&file).to_hex().to_string()), "{out}");
    let ranges = hub.ranges();
    assert_eq!(ranges[0], 0);
    assert!(ranges.len() == 4 && ranges.windows(2).all(|pair| pair[0] < pair[1]), "{ranges:?}");
}

#[test]
fn what_the_hub_does_not_have_and_what_is_no_name_is_said() {
    let home = tempfile::tempdir().unwrap();
    let hub = Hub::start(Tiny::default().file(), 0);
    assert_fails(&hub.info(home.path(), "hf:org/repo/other.gguf"), 3, &["other.gguf", "names of repository"]);
    assert_fails(&hub.info(home.path(), "hf:org/repo"), 2, &["hf:ORG/REPO/FILE"]);
    assert_fails(&hub.info(home.path(), "hf:../../x.gguf"), 2, &["hf:ORG/REPO/FILE"]);
    let gone = Hub { address: "http://127.0.0.1:9".to_owned(), state: Arc::default() };
    assert_fails(&gone.info(home.path(), MODEL), 3, &["tiny.gguf"]);
}

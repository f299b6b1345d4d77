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
    /// The parts of a split model.
    parts: Vec<Vec<u8>>,
    /// Downloads that end in the middle before one is answered in full.
    cuts: usize,
    /// First byte of each request for a range.
    ranges: Vec<u64>,
    paths: Vec<String>,
    /// What clients showed to be let in.
    tokens: Vec<String>,
    behaviour: Behaviour,
}

/// How the server treats a download.
#[derive(Default, Clone, Copy, PartialEq)]
enum Behaviour {
    #[default]
    Right,
    /// Sends its client to the same address for ever.
    Circle,
    /// Sends half of the body, and then nothing, and keeps the connection.
    Stall,
    /// Sends a page of its own with every header that a file has.
    Page,
}

const PAGE: &[u8] = b"<!DOCTYPE html><title>Log in</title>";

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
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || stream.and_then(|stream| answer(stream, &shared)));
            }
        });
        Self { address, state }
    }

    /// Runs `engine info` on a model of this hub, with the cache in `home`.
    fn info(&self, home: &Path, model: &str) -> Output {
        self.info_with(home, model, &[])
    }

    /// The same with more variables.
    fn info_with(&self, home: &Path, model: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = command(&["info", "--json", "--model", model]);
        for name in
            ["HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"]
        {
            command.env_remove(name);
        }
        command
            .envs(variables.iter().copied())
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
    let mut tokens = Vec::new();
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
        tokens.extend(line.strip_prefix("authorization: bearer ").map(str::to_owned));
    }
    let mut state = state.lock().unwrap();
    state.tokens.extend(tokens);
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    state.paths.push(path.clone());
    let behaviour = state.behaviour;
    if behaviour == Behaviour::Circle {
        drop(state);
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let served = ["/org/repo/resolve/main/tiny.gguf", "/org/repo/resolve/main/m-0000"];
    if !served.iter().any(|served| path.starts_with(served)) {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let part =
        path.strip_prefix("/org/repo/resolve/main/m-0000").and_then(|rest| rest[..1].parse::<usize>().ok());
    let whole = match (behaviour, part) {
        (Behaviour::Page, _) => PAGE,
        (_, Some(part)) => &state.parts[part - 1],
        (_, None) => &state.file,
    };
    let total = whole.len();
    let last = if probe { first } else { total as u64 - 1 };
    let body = whole[first as usize..=last as usize].to_vec();
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nETag: \"tag{}\"\r\nX-Repo-Commit: 0123abcd\r\nContent-Range: bytes \
         {first}-{last}/{total}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        part.map_or(String::new(), |part| part.to_string()),
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
    if behaviour == Behaviour::Stall && !probe {
        drop(state);
        stream.write_all(&body[..body.len() / 2])?;
        stream.flush()?;
        // Longer than any test waits; the process ends before.
        std::thread::sleep(std::time::Duration::from_secs(600));
        return Ok(());
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

/// Runs `info` and asserts that it ends with an error within the time that it was given, and some.
fn fails_soon(hub: &Hub, home: &Path) {
    let started = std::time::Instant::now();
    let output = hub.info_with(home, MODEL, &[("HF_HUB_DOWNLOAD_TIMEOUT", "2")]);
    assert_fails(&output, 3, &["hf:org/repo/tiny.gguf", "nothing came for 2 s", "HF_HUB_DOWNLOAD_TIMEOUT"]);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn a_hub_that_sends_its_client_in_circles_or_stalls_is_given_up() {
    for behaviour in [Behaviour::Circle, Behaviour::Stall] {
        let (home, file) = (tempfile::tempdir().unwrap(), Tiny::default().file());
        let hub = Hub::start(file.clone(), 0);
        hub.state.lock().unwrap().behaviour = behaviour;
        fails_soon(&hub, home.path());
        // The control: the hub has come to its senses, and the download goes on.
        hub.state.lock().unwrap().behaviour = Behaviour::Right;
        let out = stdout(&hub.info(home.path(), MODEL));
        assert!(out.contains(&blake3::hash(&file).to_hex().to_string()), "{out}");
        let goes_on = hub.ranges().last().is_some_and(|first| *first > 0);
        assert_eq!(goes_on, behaviour == Behaviour::Stall);
    }
}

#[test]
fn a_page_instead_of_a_file_is_named_and_does_not_stay_in_the_cache() {
    let (home, file) = (tempfile::tempdir().unwrap(), Tiny::default().file());
    let hub = Hub::start(file.clone(), 0);
    hub.state.lock().unwrap().behaviour = Behaviour::Page;
    assert_fails(
        &hub.info(home.path(), MODEL),
        3,
        &["hf:org/repo/tiny.gguf", "<!DOCTYPE", "nothing was kept"],
    );
    let blobs = home.path().join("hub/models--org--repo/blobs");
    let kept = std::fs::read_dir(blobs).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| std::fs::read(path).unwrap().starts_with(PAGE)).collect();
    assert!(kept.is_empty(), "{kept:?}");
    hub.state.lock().unwrap().behaviour = Behaviour::Right;
    let digest = blake3::hash(&file).to_hex().to_string();
    assert!(stdout(&hub.info(home.path(), MODEL)).contains(&digest));
    // One that an older program has put there.
    let snapshots = home.path().join("hub/models--org--repo/snapshots/0123abcd/tiny.gguf");
    std::fs::write(snapshots.canonicalize().unwrap(), PAGE).unwrap();
    assert!(stdout(&hub.info(home.path(), MODEL)).contains(&digest));
}

#[test]
fn the_hub_s_own_variables_count() {
    let (home, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = Hub::start(Tiny::default().file(), 0);
    let folder = cache.path().to_str().unwrap();
    stdout(&hub.info_with(home.path(), MODEL, &[("HF_TOKEN", "secret"), ("HF_HUB_CACHE", folder)]));
    let tokens = hub.state.lock().unwrap().tokens.clone();
    assert!(!tokens.is_empty() && tokens.iter().all(|token| token == "secret"), "{tokens:?}");
    assert!(cache.path().join("models--org--repo").is_dir());
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    // The control: without them, no token is shown, and the cache is the usual one.
    hub.state.lock().unwrap().tokens.clear();
    stdout(&hub.info(home.path(), MODEL));
    assert!(hub.state.lock().unwrap().tokens.is_empty());
    assert!(home.path().join("hub/models--org--repo").is_dir());
    // A token that a login left.
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("token"), "left\n").unwrap();
    stdout(&hub.info(other.path(), MODEL));
    assert!(hub.state.lock().unwrap().tokens.iter().all(|token| token == "left"));
}

#[test]
fn the_parts_of_a_split_model_are_fetched_together() {
    let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = Tiny::default().file();
    let paths = crate::files::split(folder.path(), &file, &[2, 5]);
    let hub = Hub::start(Vec::new(), 0);
    hub.state.lock().unwrap().parts = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    for name in ["m-00002-of-00003.gguf", "m-00001-of-00003.gguf"] {
        let out = stdout(&hub.info(home.path(), &format!("hf:org/repo/{name}")));
        assert!(out.contains("\"layers\":2"), "{out}");
    }
    assert_eq!(hub.ranges().len(), 3, "each part once");
}

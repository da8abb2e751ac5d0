//! Unix sockets, and the names that they have in the file system.

use std::fs;
use std::io::{self, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::yaml;
use crate::support::http::{Http, block_on};
use crate::support::{Gateway, Origin, PATIENCE, Program, Response, eventually};

/// A path for a socket, and an origin.
struct Site {
    origin: Origin,
    path: PathBuf,
    directory: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { origin: Origin::hello(), path: directory.path().join("t.sock"), directory }
    }

    fn yaml(&self) -> String {
        let address = format!("\"unix:{}\"", self.path.display());
        let endpoint = format!("http://{}", self.origin.address());
        yaml(address, "", &endpoint, "", "runtime: { workers: 2 }")
    }

    fn start(&self) -> Gateway {
        Gateway::start(&self.yaml())
    }

    fn ask(&self) -> io::Result<u16> {
        Connection::open(&self.path)?.ask("Connection: close\r\n").map(|response| response.status)
    }
}

/// A connection over a Unix socket.
struct Connection(BufReader<UnixStream>);

impl Connection {
    fn open(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn ask(&mut self, fields: &str) -> io::Result<Response> {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        self.0.get_mut().write_all(head.as_bytes())?;
        let response = Response::read(&mut self.0, "GET")?;
        response.ok_or_else(|| io::Error::other("closed without an answer"))
    }
}

#[test]
fn both_versions_of_http_work_over_a_unix_socket() {
    let site = Site::new();
    let _gateway = site.start();
    for _ in 0..4 {
        assert_eq!(site.ask().unwrap(), 200);
    }
    block_on(async {
        let stream = tokio::net::UnixStream::connect(&site.path).await.unwrap();
        assert_eq!(Http::http2(stream).await.unwrap().get("/").await.body, "hello");
    });
    let received = site.origin.received();
    assert_eq!(received.len(), 5);
    for request in received {
        assert_eq!(
            request.fields("x-forwarded-for"),
            ["127.0.0.1"],
            "the client is on this machine"
        );
    }
}

#[test]
fn a_socket_without_a_listener_is_replaced() {
    let site = Site::new();
    drop(UnixListener::bind(&site.path).unwrap());
    assert!(site.ask().is_err() && site.path.exists());
    let _gateway = site.start();
    assert_eq!(site.ask().unwrap(), 200);
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let site = Site::new();
    fs::write(&site.path, "precious").unwrap();
    let file = site.directory.path().join("gateway.yaml");
    fs::write(&file, site.yaml()).unwrap();
    let output = Program::run(&["run", "-c", file.to_str().unwrap()]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("the file there is no socket"), "{}", output.stderr);
    assert!(output.stderr.contains(site.path.to_str().unwrap()), "{}", output.stderr);
    assert_eq!(fs::read_to_string(&site.path).unwrap(), "precious");
}

/// Regression: they were replaced before the start failed, and then they had no name.
#[test]
fn a_start_that_fails_leaves_the_sockets_of_another_process() {
    let site = Site::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = site.directory.path().join("admin.sock");
    let _others = [&site.path, &admin].map(|path| UnixListener::bind(path).unwrap());
    let file = site.directory.path().join("gateway.yaml");
    let more = format!("[{{ address: \"{}\" }}, {{", taken.local_addr().unwrap());
    let yaml = site.yaml().replacen("[{", &more, 1);
    fs::write(&file, format!("{yaml}\nadmin: {{ address: \"unix:{}\" }}\n", admin.display()))
        .unwrap();
    let output = Program::run(&["run", "-c", file.to_str().unwrap()]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("another program has this port"), "{}", output.stderr);
    for path in [&site.path, &admin] {
        UnixStream::connect(path).expect("the other process still listens");
    }
    assert_eq!(fs::read_dir(site.directory.path()).unwrap().count(), 3);
}

/// Regression: a start that waited for keys had replaced the sockets, and removed them at its stop.
#[test]
fn a_start_that_is_stopped_leaves_the_sockets_of_another_process() {
    let site = Site::new();
    let _other = UnixListener::bind(&site.path).unwrap();
    let issuer = Origin::serving(|_, read| while read().is_some() {});
    let file = site.directory.path().join("gateway.yaml");
    let user = format!(
        "client: {{ user: {{ jwt: {{ jwks: \"http://{}/keys\", algorithms: [ES256] }} }} }}",
        issuer.address()
    );
    fs::write(&file, format!("{}\n{user}\n", site.yaml())).unwrap();
    let mut process = Program::command().args(["run", "-c"]).arg(&file).spawn().unwrap();
    eventually("the keys are asked for", || !issuer.received().is_empty());
    let id = rustix::process::Pid::from_child(&process);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    process.wait().unwrap();
    UnixStream::connect(&site.path).expect("the other process still listens");
    assert_eq!(fs::read_dir(site.directory.path()).unwrap().count(), 2);
}

#[test]
fn the_name_is_removed_at_the_stop() {
    let site = Site::new();
    let mut gateway = site.start();
    assert_eq!(site.ask().unwrap(), 200);
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(0));
    let left: Vec<_> = fs::read_dir(site.directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Sends requests until the connection closes or the test stops.
fn ask_on(site: &Site, fields: &str, stop: &AtomicBool, answered: &AtomicUsize) -> io::Result<()> {
    let mut connection = Connection::open(&site.path)?;
    while !stop.load(Ordering::Relaxed) {
        let response = connection.ask(fields)?;
        if response.status != 200 {
            return Err(io::Error::other(format!("status {}", response.status)));
        }
        answered.fetch_add(1, Ordering::Relaxed);
        if response.field("connection").is_some_and(|it| it.eq_ignore_ascii_case("close")) {
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Stops the clients, even if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn processes_take_over_the_name_without_a_failed_request() {
    let site = Site::new();
    let mut running = site.start();
    let stop = AtomicBool::new(false);
    let answered = AtomicUsize::new(0);
    let ask = &|fields: &str| {
        let mut failures = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            failures.extend(ask_on(&site, fields, &stop, &answered).err());
        }
        failures
    };
    thread::scope(|scope| {
        let clients = ["", "Connection: close\r\n", "", "Connection: close\r\n"]
            .map(|fields| scope.spawn(move || ask(fields)));
        let stopping = Stop(&stop);
        for _ in 0..3 {
            let mut old = std::mem::replace(&mut running, site.start());
            let before = answered.load(Ordering::Relaxed);
            eventually("clients are served", || answered.load(Ordering::Relaxed) > before + 200);
            old.terminate();
            assert_eq!(old.wait().code(), Some(0));
            assert!(site.path.exists(), "the name belongs to the next process");
        }
        drop(stopping);
        for client in clients {
            let failures = client.join().unwrap();
            assert!(failures.is_empty(), "{failures:?}");
        }
    });
}

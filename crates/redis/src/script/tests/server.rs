//! A real server for one test, with a socket in a temporary directory.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::{Client, Connection};

use super::super::SCRIPT;

/// The number of attempts to connect after the start, 10 ms apart.
const ATTEMPTS: u32 = 1000;

/// A server without persistence, and a connection to it on which the script is loaded.
pub(crate) struct Server {
    process: Child,
    directory: tempfile::TempDir,
    pub(crate) connection: Connection,
    /// The SHA-1 by which the script is called.
    pub(super) sha: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(SCRIPT.source, &[])
    }

    /// A server with these arguments, on which this script is loaded.
    pub(super) fn with(source: &str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let process = Command::new("redis-server")
            // A busy machine makes commands slow. A log of them would count as memory of clients.
            .args(["--slowlog-log-slower-than", "-1"])
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .args(arguments)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the tests of the Redis store need redis-server: install the package");
        let mut connection = connect(&socket);
        let sha = redis::cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection).unwrap();
        Self { process, directory, connection, sha }
    }

    /// A connection on which the server reports each command, also those of scripts.
    pub(super) fn monitor(&self) -> BufReader<UnixStream> {
        let mut stream = UnixStream::connect(self.directory.path().join("socket")).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "+OK\r\n");
        reader
    }

    /// The server's `INFO`.
    pub(super) fn info(&mut self, section: &str) -> HashMap<String, String> {
        let info: String = redis::cmd("INFO").arg(section).query(&mut self.connection).unwrap();
        info.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// The bytes in use. A new connection asks, and all others are closed before: Redis resizes
    /// their buffers at times of its own.
    pub(super) fn used_memory(&mut self) -> u64 {
        self.connection = connect(&self.directory.path().join("socket"));
        let mut others = redis::cmd("CLIENT");
        others.arg("KILL").arg("TYPE").arg("normal").exec(&mut self.connection).unwrap();
        self.info("memory")["used_memory"].parse().unwrap()
    }

    /// How often each command was called since the last look.
    pub(super) fn calls(&mut self) -> HashMap<String, u32> {
        let stats = self.info("commandstats");
        redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut self.connection).unwrap();
        let calls = |(name, stats): (String, String)| {
            let calls = stats.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
            Some((name.strip_prefix("cmdstat_")?.to_owned(), calls))
        };
        stats.into_iter().filter_map(calls).collect()
    }
}

fn connect(socket: &Path) -> Connection {
    let client = Client::open(format!("redis+unix://{}", socket.display())).unwrap();
    for _ in 1..ATTEMPTS {
        if let Ok(connection) = client.get_connection() {
            return connection;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    client.get_connection().expect("the server answers within 10 s")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().expect("it runs until here");
        self.process.wait().expect("it has been killed");
    }
}

//! A real server for the time of a test, behind a socket in a directory that
//! goes with it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::{Client, Connection};

use super::super::SCRIPT;

/// How often one looks whether it has started, 10 ms apart.
const ATTEMPTS: u32 = 1000;

/// A server without persistence, and a connection to it on which the script is loaded.
pub(crate) struct Server {
    process: Child,
    _directory: tempfile::TempDir,
    pub(crate) connection: Connection,
    /// By which the script is called.
    pub(super) sha: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with_script(SCRIPT.source)
    }

    /// A server on which another script is loaded.
    pub(super) fn with_script(source: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the tests of the Redis store need redis-server: install the package");
        let client = Client::open(format!("redis+unix://{}", socket.display())).unwrap();
        let mut connection = connect(&client);
        let sha = redis::cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection).unwrap();
        Self { process, _directory: directory, connection, sha }
    }
}

fn connect(client: &Client) -> Connection {
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

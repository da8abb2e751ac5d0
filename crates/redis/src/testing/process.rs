//! A real server with a socket in a temporary directory.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::super::settings::{Address, Topology};

/// A running server, or one that was killed and may be started again.
pub(in super::super) struct Process {
    child: Child,
    directory: tempfile::TempDir,
    arguments: Vec<&'static str>,
}

impl Process {
    /// Starts a server, and returns when it answers.
    pub(in super::super) fn start(arguments: &[&'static str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let child = start(directory.path(), arguments);
        Self { child, directory, arguments: arguments.to_vec() }
    }

    pub(in super::super) fn address(&self) -> Address {
        Address::Unix(self.directory.path().join("socket"))
    }

    pub(in super::super) fn topology(&self) -> Topology {
        Topology::Standalone(self.address())
    }

    pub(in super::super) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was killed");
    }

    pub(in super::super) fn restart(&mut self) {
        self.child = start(self.directory.path(), &self.arguments);
    }

    /// Sends a signal. `STOP` freezes the server, and `CONT` resumes it.
    pub(in super::super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.expect("`kill` is there").success());
    }

    /// Runs one command on a new connection, and returns what it prints.
    pub(in super::super) fn command(&self, arguments: &[&str]) -> String {
        command(self.directory.path(), arguments)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that failed may have killed the server before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(directory: &Path, arguments: &[&str]) -> Child {
    let mut child = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--unixsocket", "socket"])
        .args(arguments)
        .current_dir(directory)
        .stdout(Stdio::null())
        .spawn()
        .expect("the tests of the Redis store need redis-server: install the package");
    for _ in 0..1000 {
        if !command(directory, &["PING"]).is_empty() {
            return child;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it does not answer, but runs");
    let status = child.wait();
    panic!("redis-server does not answer within 10 s: {status:?}");
}

fn command(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .args(["-s", "socket"])
        .args(arguments)
        .current_dir(directory)
        .stderr(Stdio::null())
        .output()
        .expect("the tests of the Redis store need redis-cli: install the package");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

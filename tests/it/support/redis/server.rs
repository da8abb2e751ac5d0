//! One Redis server, which is started for a test and stopped when the value is dropped.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::thread;

use super::port::free_port;
use crate::support::Certificates;
use crate::support::{eventually, signal};

/// The largest number of ports that are tried.
const ATTEMPTS: usize = 5;

/// The address of all servers.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

/// The options that differ from the defaults of Redis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The password of all clients.
    pub(crate) password: Option<&'static str>,
    /// TLS instead of plain TCP, also between servers, with these certificates. Clients
    /// must present a certificate of the same authority.
    pub(crate) tls: Option<Arc<Certificates>>,
    /// Whether it is a Sentinel.
    pub(crate) is_sentinel: bool,
    /// Further lines of its configuration file.
    pub(crate) lines: Vec<String>,
}

/// A server that is running, or that was killed and may be restarted.
pub(crate) struct Redis {
    options: Options,
    port: u16,
    process: Child,
    directory: tempfile::TempDir,
}

impl Redis {
    /// Starts a server, and waits until it answers.
    pub(crate) fn start(options: Options) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let process = Command::new("true").spawn().expect("`true` is installed");
        let mut redis = Self { options, port: 0, process, directory };
        for _ in 0..ATTEMPTS {
            redis.port = free_port();
            fs::write(redis.file("redis.conf"), redis.configuration()).expect("a file");
            if redis.run() {
                return redis;
            }
        }
        panic!("redis-server does not start:\n{}", redis.log());
    }

    /// Starts a server that has all slots of a cluster: it refuses commands with keys of several
    /// slots, as a service does that has a cluster behind one address. The options may give the
    /// command `CLUSTER` another name.
    pub(crate) fn start_with_slots(mut options: Options) -> Self {
        let renamed =
            |line: &String| Some(line.strip_prefix("rename-command CLUSTER ")?.to_owned());
        let cluster = options.lines.iter().find_map(renamed).unwrap_or("CLUSTER".to_owned());
        options.lines.push("cluster-enabled yes".to_owned());
        let redis = Self::start(options);
        let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
        let mut add = vec![cluster.as_str(), "ADDSLOTS"];
        add.extend(slots.iter().map(String::as_str));
        redis.cli(&add);
        eventually("it has all slots", || {
            redis.cli(&[&cluster, "INFO"]).contains("cluster_state:ok")
        });
        redis
    }

    /// The content of its configuration file.
    fn configuration(&self) -> String {
        let port = self.port;
        let mut lines = vec![
            format!("bind {LOOPBACK}"),
            format!("dir {}", self.directory.path().display()),
            format!("logfile {}", self.file("log").display()),
        ];
        if !self.options.is_sentinel {
            let socket = self.socket();
            lines.push("save \"\"\nappendonly no".to_owned());
            if major_version() >= 7 {
                lines.push("enable-debug-command yes".to_owned());
            }
            lines.push(format!("unixsocket {}", socket.display()));
        }
        match &self.options.tls {
            None => lines.push(format!("port {port}")),
            Some(made) => {
                lines.push(format!("port 0\ntls-port {port}\ntls-auth-clients yes"));
                lines.push("tls-replication yes".to_owned());
                lines.push(format!("tls-ca-cert-file {}", made.ca().display()));
                lines.push(format!("tls-cert-file {}", made.server().display()));
                lines.push(format!("tls-key-file {}", made.server_key().display()));
            }
        }
        lines.extend(self.options.password.map(|password| format!("requirepass {password}")));
        lines.extend(self.options.lines.iter().cloned());
        lines.join("\n") + "\n"
    }

    /// Runs the server until it answers. Returns false if it ends instead.
    fn run(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        command.arg(self.file("redis.conf"));
        if self.options.is_sentinel {
            command.arg("--sentinel");
        }
        let errors = File::create(self.file("errors")).expect("a file");
        command.stdin(Stdio::null()).stdout(errors.try_clone().expect("a file")).stderr(errors);
        self.process = command.spawn().expect("redis-server is installed: see scripts/test");
        let mut is_ready = false;
        eventually("a Redis server answers", || {
            is_ready = self.try_cli(&["PING"]).is_ok_and(|answer| answer == "PONG");
            is_ready || self.process.try_wait().expect("it is our child").is_some()
        });
        is_ready
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The output of the server, and of the system about it.
    fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.file(name)).unwrap_or_default();
        read("log") + &read("errors")
    }

    pub(super) fn process_id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The URL in the form that users write, without user and password.
    pub(crate) fn url(&self) -> String {
        format!("{}://{LOOPBACK}:{}", self.scheme(), self.port)
    }

    /// The scheme of its URLs.
    pub(super) fn scheme(&self) -> &'static str {
        if self.options.tls.is_some() { "rediss" } else { "redis" }
    }

    /// The path of its Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.file("redis.sock")
    }

    /// The certificates that it presents and trusts.
    pub(crate) fn certificates(&self) -> &Certificates {
        self.options.tls.as_deref().expect("it was started with TLS")
    }

    /// Runs a command that must succeed, and returns the answer as text.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        self.try_cli(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    /// The same for a command that may fail.
    pub(crate) fn try_cli(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("redis-cli");
        command.args(["-e", "-p", &self.port.to_string()]);
        if let Some(password) = self.options.password {
            command.env("REDISCLI_AUTH", password);
        }
        if let Some(made) = &self.options.tls {
            command.arg("--tls").arg("--cacert").arg(made.ca());
            command.arg("--cert").arg(made.client()).arg("--key").arg(made.client_key());
        }
        let output = command.args(arguments).output().expect("redis-cli is installed");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        Err(text(&output.stdout) + &text(&output.stderr))
    }

    /// A value of `INFO`, if it exists.
    pub(crate) fn info(&self, name: &str) -> Option<String> {
        let info = self.try_cli(&["INFO", "all"]).ok()?;
        let value =
            |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
        info.lines().find_map(value)
    }

    /// Kills the server, as a crash does. Its data are lost.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it is our child");
        self.process.wait().expect("it is our child");
    }

    /// Stops the process with SIGSTOP. Its connections stay open.
    pub(crate) fn stop(&self) {
        signal(&self.process, "STOP");
    }

    /// Continues the process.
    pub(crate) fn cont(&self) {
        signal(&self.process, "CONT");
    }

    /// Restarts the server on the same port, after [`Self::kill`].
    pub(crate) fn restart(&mut self) {
        assert!(self.run(), "redis-server does not start again:\n{}", self.log());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // SIGKILL also ends a process that is stopped.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            let _ = writeln!(io::stderr(), "Redis on port {}:\n{}", self.port, self.log());
        }
    }
}

/// The first number of the version of the servers: `v=7.0.15`.
pub(crate) fn major_version() -> u32 {
    static VERSION: LazyLock<u32> = LazyLock::new(|| {
        let told = Command::new("redis-server").arg("--version").output().expect("redis-server");
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        let version = text.split_once("v=").and_then(|(_, version)| version.split_once('.'));
        version.and_then(|(major, _)| major.parse().ok()).expect("redis-server tells its version")
    });
    *VERSION
}

//! A `redis-server` of our own, and what it says of itself.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use redis::{Client, Cmd, Connection, Value};

/// How often one looks whether it has started, 10 ms apart.
const ATTEMPTS: u32 = 1000;
/// How often everything is measured.
const ROUNDS: u32 = 25;

/// A server on which one script is loaded. It is stopped when dropped.
pub(crate) struct Server {
    process: Child,
    connection: Connection,
    pub(crate) sha: String,
    _directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(script: &str) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let socket = directory.path().join("socket");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start redis-server: install it")?;
        let client = Client::open(format!("redis+unix://{}", socket.display()))?;
        let mut connection = connect(&client).context("redis-server does not answer")?;
        let sha = redis::cmd("SCRIPT").arg("LOAD").arg(script).query(&mut connection)?;
        Ok(Self { process, connection, sha, _directory: directory })
    }

    /// Sends calls at once, and waits for their answers.
    pub(crate) fn run(&mut self, calls: Vec<Cmd>) -> anyhow::Result<()> {
        let mut pipe = redis::pipe();
        for call in calls {
            pipe.add_command(call);
        }
        pipe.query::<Vec<Value>>(&mut self.connection)?;
        Ok(())
    }

    /// The server's processor time for so many calls, or lists of calls that are
    /// sent at once, in microseconds: the least of several rounds, because others
    /// use the machine too.
    pub(crate) fn least_us(
        &mut self,
        count: usize,
        mut calls: impl FnMut(&Self) -> Vec<Cmd>,
    ) -> anyhow::Result<f64> {
        let mut least_us = f64::INFINITY;
        for _ in 0..ROUNDS {
            let before_us = self.cpu_us()?;
            for _ in 0..count {
                let calls = calls(self);
                self.run(calls)?;
            }
            least_us = least_us.min(self.cpu_us()? - before_us);
        }
        Ok(least_us)
    }

    fn cpu_us(&mut self) -> anyhow::Result<f64> {
        let user_s = self.info("cpu", "used_cpu_user")?;
        Ok((user_s + self.info("cpu", "used_cpu_sys")?) * 1e6)
    }

    /// One number of what the server says of itself.
    pub(crate) fn info(&mut self, section: &str, name: &str) -> anyhow::Result<f64> {
        let info: String = redis::cmd("INFO").arg(section).query(&mut self.connection)?;
        let number = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(number.with_context(|| format!("INFO {section} has no {name}"))?.parse()?)
    }
}

fn connect(client: &Client) -> redis::RedisResult<Connection> {
    for _ in 1..ATTEMPTS {
        if let Ok(connection) = client.get_connection() {
            return Ok(connection);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    client.get_connection()
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing can be done about a server that is gone already.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

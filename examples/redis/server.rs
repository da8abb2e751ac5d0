//! A `redis-server` for a measurement, and its statistics.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use redis::{Client, Cmd, Connection};
use tollgate_core::time::Span;

/// The number of checks whether the server has started, 10 ms apart.
const ATTEMPTS: u32 = 1000;
/// The number of measurements.
const ROUNDS: u32 = 15;

/// A server with one loaded script. Dropping it stops the server.
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

    /// Sends all calls at once, and waits for their answers.
    pub(crate) fn run(&mut self, calls: &[Cmd]) -> anyhow::Result<()> {
        self.send(calls)?;
        self.receive(calls.len())
    }

    /// Sends nothing if there are no calls: the client refuses an empty command.
    fn send(&mut self, calls: &[Cmd]) -> anyhow::Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let packed: Vec<u8> = calls.iter().flat_map(Cmd::get_packed_command).collect();
        Ok(self.connection.send_packed_command(&packed)?)
    }

    fn receive(&mut self, answers: usize) -> anyhow::Result<()> {
        for _ in 0..answers {
            self.connection.recv_response()?.extract_error()?;
        }
        Ok(())
    }

    /// The server's processor time for `groups` groups of calls, in microseconds. It
    /// is the smallest of several rounds, because other programs use the machine too.
    /// `in_flight` groups are in progress at a time.
    pub(crate) fn least_us(
        &mut self,
        groups: usize,
        in_flight: usize,
        mut group: impl FnMut() -> Vec<Cmd>,
    ) -> anyhow::Result<f64> {
        let mut least_us = f64::INFINITY;
        for _ in 0..ROUNDS {
            let groups: Vec<_> = (0..groups).map(|_| group()).collect();
            let before_us = self.cpu_us()?;
            for (index, group) in groups.iter().enumerate() {
                if index >= in_flight {
                    self.receive(group.len())?;
                }
                self.send(group)?;
            }
            for group in &groups[groups.len().saturating_sub(in_flight)..] {
                self.receive(group.len())?;
            }
            least_us = least_us.min(self.cpu_us()? - before_us);
        }
        Ok(least_us)
    }

    /// The run time of the script in these calls, in microseconds, as the server
    /// reports it.
    pub(crate) fn script_us(&mut self, calls: &[Cmd]) -> anyhow::Result<f64> {
        redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut self.connection)?;
        self.run(calls)?;
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut self.connection)?;
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
        let usec = line.and_then(|line| line.split("usec=").nth(1)?.split(',').next());
        Ok(usec.context("INFO commandstats has no evalsha")?.parse()?)
    }

    /// The number of fields of all keys, and of those keys that live for `span` or
    /// longer if no call uses them.
    pub(crate) fn fields_and_those_that_live_for(
        &mut self,
        span: Span,
    ) -> anyhow::Result<(u32, u32)> {
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut self.connection)?;
        let mut all = 0;
        let mut living = 0;
        for key in keys {
            let fields: u32 = redis::cmd("HLEN").arg(&key).query(&mut self.connection)?;
            let lives_ms: i64 = redis::cmd("PTTL").arg(&key).query(&mut self.connection)?;
            let is_left = u64::try_from(lives_ms).map_or(true, |ms| Span::from_millis(ms) >= span);
            all += fields;
            living += if is_left { fields } else { 0 };
        }
        Ok((all, living))
    }

    fn cpu_us(&mut self) -> anyhow::Result<f64> {
        let user_s = self.info("cpu", "used_cpu_user")?;
        Ok((user_s + self.info("cpu", "used_cpu_sys")?) * 1e6)
    }

    /// One number from the server's INFO.
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
        // An error means that the server has ended already.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

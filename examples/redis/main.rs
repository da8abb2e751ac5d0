//! How much memory a client takes in Redis, and how much of its processor a
//! decision: the figures of docs/redis.md.
//!
//! Starts a `redis-server` of its own, behind a socket in a temporary directory.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use redis::{Cmd, Connection};
use tollgate::algorithm::{Algorithm, Quota, SlidingWindow, TokenBucket};
use tollgate::digest::{Counter, Key, Principal};
use tollgate::store::redis::codec::{Ask, Asked, Encoder};
use tollgate::store::redis::layout::Layout;
use tollgate::store::redis::script::{Encoded, SCRIPT};
use tollgate::time::{Span, Timestamp};

const CLIENTS: u64 = 100_000;
const DECISIONS: usize = 64_000;

fn main() -> anyhow::Result<()> {
    let sliding = |limit, s| quota(limit, s).map(SlidingWindow::new).map(Algorithm::SlidingWindow);
    let three = [sliding(10, 1)?, sliding(100, 60)?, sliding(1000, 3600)?];
    let bucket = Algorithm::TokenBucket(TokenBucket::new(quota(100, 60)?, 20)?);
<<<<<<< HEAD
    let fixed = Algorithm::FixedWindow(FixedWindow::new(quota(100, 60)?));
    println!(
        "{:<32} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "policies", "bytes", "1", "pipe 64", "batch 4", "16", "64"
    );
=======
    println!("{:<32} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}", "policies", "bytes", "1", "pipe 64", "batch 4", "16", "64");
>>>>>>> compose
    for (name, policies) in [
        ("sliding_window, 1 min", &three[1..2]),
        ("token_bucket, 1 min", &[bucket]),
        ("3 sliding_window, 1 s 1 min 1 h", &three),
    ] {
        measure(name, policies)?;
    }
    Ok(())
}

fn quota(limit: u64, window_s: u64) -> anyhow::Result<Quota> {
    Ok(Quota::new(limit, Span::from_secs(window_s))?)
}

/// Fills a server with clients under these policies, and prints what they take.
fn measure(name: &str, policies: &[Algorithm]) -> anyhow::Result<()> {
    let mut server = Server::start()?;
    let encoder = Encoder::new(Layout::new("rl", CLIENTS), 1);
    let empty = server.info("memory", "used_memory")?;
    for first in (0..CLIENTS).step_by(64) {
        let bodies: Vec<_> =
            (first..first + 64).map(|client| decision(&encoder, policies, client)).collect();
        let _: Vec<Vec<u8>> = call(&bodies).query(&mut server.connection)?;
    }
    let bytes = (server.info("memory", "used_memory")? - empty) / to_float(CLIENTS);
    print!("{name:<32} {bytes:>8.1}");
    for (calls, bodies) in [(1,1),(64, 1), (1, 64), (64,1), (1,64)] {
        print!(" {:>8.2}", server.time(&encoder, policies, calls, bodies)?);
    }
    println!();
    Ok(())
}

fn to_float(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

fn asked(policies: &[Algorithm], client: u64) -> Vec<Asked<'_>> {
    // As good as random: neighbours lie far apart (W. Stafford's mix 13).
    let mix = |number: u64| {
        let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    let bits = u128::from(mix(client)) << 64 | u128::from(mix(!client));
    let key =
        |policy| Key { principal: Principal::from_bits(bits), counter: Counter::from_bits(policy) };
    (1..)
        .zip(policies)
        .map(|(policy, algorithm)| Asked {
            key: key(policy),
            algorithm,
            ask: Ask::Take(1),
            binding: true,
        })
        .collect()
}

fn decision(encoder: &Encoder, policies: &[Algorithm], client: u64) -> Encoded {
    encoder.encode(&asked(policies, client), Timestamp::default())
}

fn call(bodies: &[Encoded]) -> Cmd {
    let keys: Vec<_> = bodies.iter().flat_map(|body| &body.keys).collect();
    let mut call = redis::cmd("EVALSHA");
    call.arg(&*SCRIPT.sha).arg(keys.len());
    keys.into_iter().for_each(|key| {
        call.arg(&key[..]);
    });
    call.arg(0);
    bodies.iter().for_each(|body| {
        call.arg(&body.body[..]);
    });
    call
}

struct Server {
    process: Child,
    connection: Connection,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let socket = directory.path().join("socket");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start redis-server: install it")?;
        let client = redis::Client::open(format!("redis+unix://{}", socket.display()))?;
        let mut connection = client.get_connection();
        for _ in 0..1000 {
            if connection.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            connection = client.get_connection();
        }
        let mut connection = connection.context("redis-server does not answer")?;
        redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT.source).exec(&mut connection)?;
        Ok(Self { process, connection, _directory: directory })
    }

    /// One number of what the server says of itself.
    fn info(&mut self, section: &str, name: &str) -> anyhow::Result<f64> {
        let info: String = redis::cmd("INFO").arg(section).query(&mut self.connection)?;
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.context("INFO says no such thing")?.parse()?)
    }

    fn cpu_s(&mut self) -> anyhow::Result<f64> {
        Ok(self.info("cpu", "used_cpu_user")? + self.info("cpu", "used_cpu_sys")?)
    }

    /// Microseconds of the server's processor for a decision, when so many
    /// calls are sent at once, of so many bodies each.
    fn time(
        &mut self,
        encoder: &Encoder,
        policies: &[Algorithm],
        calls: usize,
        bodies: usize,
    ) -> anyhow::Result<f64> {
        let mut random = fastrand::Rng::with_seed(1);
        let before_s = self.cpu_s()?;
        for _ in 0..DECISIONS / (calls * bodies) {
            let mut pipe = redis::pipe();
            for _ in 0..calls {
                let bodies: Vec<_> = (0..bodies)
                    .map(|_| decision(encoder, policies, random.u64(..CLIENTS)))
                    .collect();
                pipe.add_command(call(&bodies));
            }
            let _: Vec<Vec<Vec<u8>>> = pipe.query(&mut self.connection)?;
        }
        let decisions = to_float(u64::try_from(DECISIONS)?);
        Ok((self.cpu_s()? - before_s) * 1e6 / decisions)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing can be done about a server that is gone already.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

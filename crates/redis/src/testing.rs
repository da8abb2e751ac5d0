//! Shared helpers for the tests of connections: a real server, a fake server, and a script that
//! both run.

mod fake;
mod process;

use std::future::Future;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use smallvec::smallvec;
use tokio::runtime::Builder;
use tokio::time::sleep;

pub(super) use self::fake::{FakeServer, Manner};
pub(super) use self::process::Process;
use tollgate_core::time::monotonic;

use super::script::{Encoded, Script};
use super::settings::{RedisSettings, Topology};
use super::transport::Network;

/// The reply to a body is the body. The key of a body counts its calls.
pub(super) static ECHO: LazyLock<Network> = LazyLock::new(|| {
    let source = "local answers = {}
        for i = 2, #ARGV do
            if KEYS[i - 1] then redis.call('INCR', KEYS[i - 1]) end
            answers[i - 1] = ARGV[i]
        end
        return answers";
    Network::running(Script::of(source))
});

/// A timeout for tests that expect a reply. A busy machine does not exceed it.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

pub(super) fn settings(topology: Topology, timeout: Duration) -> Rc<RedisSettings> {
    let mut settings = RedisSettings::new(topology);
    settings.timeout = timeout;
    Rc::new(settings)
}

pub(super) fn asked(key: &str, body: &str) -> Encoded {
    Encoded { keys: smallvec![key.to_owned().into()], body: body.to_owned().into() }
}

/// Runs a test in a runtime like a worker's.
pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime")
        .block_on(test)
}

/// Waits until `holds`, or fails after ten seconds.
pub(super) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = monotonic();
    while !holds().await {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "this did not happen within ten seconds: {what}"
        );
        sleep(Duration::from_millis(5)).await;
    }
}

/// How long a future takes, with its output.
pub(super) async fn timed<T>(what: impl Future<Output = T>) -> (T, Duration) {
    let start: Instant = monotonic();
    let outcome = what.await;
    (outcome, start.elapsed())
}

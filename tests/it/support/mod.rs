//! What the tests speak with: a gateway, clients in front of it, origins behind it.
//!
//! Everything listens on a free port of the loopback, and everything that was
//! started ends with the value that stands for it. Clients and origins are
//! blocking threads over plain sockets, so that they can misbehave byte by byte.

mod backend;
mod certificates;
mod client;
mod endpoint;
pub(crate) mod frames;
mod gateway;
pub(crate) mod http;
pub(crate) mod load;
mod origin;
mod place;
pub(crate) mod redis;
pub(crate) mod reserved;
mod response;
mod tls;

pub(crate) use tollgate_limiter::policy::geo_writer as mmdb;

pub(crate) use backend::{Backend, Speaks};
pub(crate) use certificates::Certificates;
pub(crate) use client::Client;
pub(crate) use endpoint::Endpoint;
pub(crate) use gateway::{Gateway, Output, Program};
pub(crate) use origin::{Origin, Received};
pub(crate) use place::{Place, on_every_store};
pub(crate) use reserved::Reserved;
pub(crate) use response::Response;
pub(crate) use tls::{TlsClient, read_certificate};

use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Nothing on this machine takes longer, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds, and says what did not happen if it never does.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = now() + PATIENCE;
    while !condition() {
        assert!(now() < deadline, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// For waiting, never for asserting how fast something was.
#[expect(clippy::disallowed_methods, reason = "tests of a real program live in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Sends the signal of this name to a process that a test has started.
pub(crate) fn signal(process: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.id().to_string()]).status();
    assert!(status.expect("kill is there").success());
}

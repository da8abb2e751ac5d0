//! The parts of the tests: a gateway, its clients, and origins.
//!
//! All servers listen on free ports of the loopback, and end when their values are dropped.
//! Clients and origins are blocking threads over plain sockets, so that they can send
//! invalid bytes.

mod backend;
mod browser;
mod certificates;
mod client;
mod endpoint;
pub(crate) mod frames;
mod gateway;
pub(crate) mod http;
pub(crate) mod load;
mod origin;
pub(crate) mod redis;
pub(crate) mod reserved;
mod response;
mod store_kind;
mod tls;

pub(crate) use tollgate_core::policy::geo_writer as mmdb;

pub(crate) use backend::{Backend, Speaks};
pub(crate) use browser::Browser;
pub(crate) use certificates::Certificates;
pub(crate) use client::Client;
pub(crate) use endpoint::Endpoint;
pub(crate) use gateway::{Gateway, Output, Program};
pub(crate) use origin::{Origin, Received};
pub(crate) use reserved::Reserved;
pub(crate) use response::Response;
pub(crate) use store_kind::{StoreKind, on_every_store};
pub(crate) use tls::{TlsClient, read_certificate};

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A bound for every wait in the tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds. If it never does, fails with `what`.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = now() + PATIENCE;
    while !condition() {
        assert!(now() < deadline, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The document of the admin API at this path, which `credential` may read. A credential may make
/// some calls in a second, so a test that waits for something asks again.
pub(crate) fn admin_text(admin: SocketAddr, path: &str, credential: &str) -> String {
    let mut text = String::new();
    eventually("the admin API answers", || {
        let response = Client::connect(admin).get(path, &[credential]);
        text = response.text();
        response.status != 429
    });
    text
}

/// Pauses while a test waits. It never asserts a duration.
#[expect(clippy::disallowed_methods, reason = "tests of a real program need real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets one test that measures waits run at a time, because other load would look like waits. The
/// other such tests keep their threads waiting meanwhile, so that little else runs beside it.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command that runs as root. A user who is not root needs `sudo` without a password, as
/// scripts/need does to install programs.
pub(crate) fn as_root(program: impl AsRef<OsStr>) -> Command {
    if rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut sudo = Command::new("sudo");
    sudo.arg("--non-interactive").arg(program);
    sudo
}

/// Sends the signal of this name to a process that a test has started.
pub(crate) fn signal(process: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.id().to_string()]).status();
    assert!(status.expect("kill is installed").success());
}

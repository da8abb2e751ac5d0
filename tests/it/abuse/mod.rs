//! Clients that mean harm. While they try, a well-behaved client on the same
//! worker asks without end: all its requests are answered, it does not wait for
//! long, and what the process holds in memory stays bounded. What its p99 is on
//! a machine that does nothing else, `bench/abuse` measures.

mod crowds;
mod floods;
mod slow;

use std::time::Duration;

use crate::support::load::{Load, Plan, Sample, percentile};
use crate::support::{Gateway, Origin, now};

/// How long an attack goes on, and the quiet before it.
const LENGTH: Duration = Duration::from_millis(400);

/// A wait that nobody can blame on an attack: the machine has other work, most
/// of it the other tests'. For the same reason the median is looked at, not p99.
const UNREMARKABLE: Duration = Duration::from_millis(250);

/// Routes everything to `origin` on one worker; `listener` has further fields.
fn gateway(origin: &Origin, listener: &str) -> Gateway {
    Gateway::on_one_worker(origin.address(), listener)
}

/// Repeats `attack` for a while, and asserts that the well-behaved client does
/// not notice and that the process grows by no more than so many MiB.
fn withstands(gateway: &Gateway, most_mib: usize, mut attack: impl FnMut()) {
    let quiet = meanwhile(gateway, || std::thread::sleep(LENGTH));
    let usual_kib = gateway.resident_kib();
    let end = now() + LENGTH;
    let busy = meanwhile(gateway, || {
        attack();
        while now() < end {
            attack();
        }
    });
    let grown_mib = gateway.peak_kib().saturating_sub(usual_kib) / 1024;
    assert!(grown_mib <= most_mib, "the process has grown by {grown_mib} MiB");
    let (before, during) = (percentile(&quiet, 50), percentile(&busy, 50));
    assert!(during <= UNREMARKABLE.max(before * 2), "{during:?}, and {before:?} before");
}

/// What the well-behaved client meets while `this` happens.
fn meanwhile(gateway: &Gateway, this: impl FnOnce()) -> Vec<Sample> {
    let load = Load::start(&Plan {
        addresses: vec![gateway.address()],
        connections: 2,
        path: "/",
        clients: 1,
        rest: Duration::from_millis(1),
    });
    this();
    let samples = load.stop();
    assert!(samples.iter().all(|sample| sample.status == 200), "{samples:?}");
    samples
}

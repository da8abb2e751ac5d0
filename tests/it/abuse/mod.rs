//! Attacks. Meanwhile a normal client on the same worker sends requests without pause: all
//! of them get responses, without a long wait, and the memory of the process stays bounded.
//! `bench/abuse` measures the p99 of such a client on an otherwise idle machine.

mod crowds;
mod floods;
mod slow;

use std::time::Duration;

use crate::support::load::{Load, Plan, Sample, percentile};
use crate::support::{Gateway, Origin, now};

/// The duration of an attack, and of the quiet time before it.
const LENGTH: Duration = Duration::from_millis(400);

/// A wait that other work of the machine can cause, most of it other tests. For the same
/// reason the median is checked, not the p99.
const UNREMARKABLE: Duration = Duration::from_millis(250);
/// The same as a share of one attack, because a machine that is slow or busy needs longer for both.
/// A client that is not served meanwhile waits for the whole attack.
const UNREMARKABLE_SHARE: u32 = 4;

/// A gateway with one worker that forwards all requests to `origin`.
fn gateway(origin: &Origin, listener: &str) -> Gateway {
    Gateway::on_one_worker(origin.address(), listener)
}

/// Repeats `attack` for a while. Asserts that the normal client does not notice it, and that
/// the process grows by at most `most_mib`.
fn withstands(gateway: &Gateway, most_mib: usize, mut attack: impl FnMut()) {
    let quiet = meanwhile(gateway, || std::thread::sleep(LENGTH));
    let usual_kib = gateway.resident_kib();
    let end = now() + LENGTH;
    let mut longest = Duration::ZERO;
    let mut attack = || {
        let begun = now();
        attack();
        longest = longest.max(now().duration_since(begun));
    };
    let busy = meanwhile(gateway, || {
        attack();
        while now() < end {
            attack();
        }
    });
    let grown_mib = gateway.peak_kib().saturating_sub(usual_kib) / 1024;
    assert!(grown_mib <= most_mib, "the process has grown by {grown_mib} MiB");
    let (before, during) = (percentile(&quiet, 50), percentile(&busy, 50));
    let most = UNREMARKABLE.max(before * 2).max(longest / UNREMARKABLE_SHARE);
    assert!(during <= most, "{during:?}, and {before:?} before; an attack took {longest:?}");
}

/// The samples of the normal client while `this` runs.
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

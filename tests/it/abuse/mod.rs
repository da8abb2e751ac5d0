//! Attacks. Meanwhile a normal client on the same worker sends requests without pause: all
//! of them get responses, without a long wait, and the memory of the process stays bounded.
//! `bench/abuse` measures the p99 of such a client on an otherwise idle machine.

mod crowds;
mod floods;
mod slow;

use std::time::Duration;

use crate::support::load::{Load, Plan, Sample, percentile};
use crate::support::{Gateway, Origin, alone, now};

/// The duration of an attack, and of the quiet time before it.
const LENGTH: Duration = Duration::from_millis(400);

/// A wait that other work of the machine can cause, most of it other tests. For the same
/// reason the median is checked, not the p99.
const UNREMARKABLE: Duration = Duration::from_millis(250);

/// A gateway with one worker that forwards all requests to `origin`.
fn gateway(origin: &Origin, listener: &str) -> Gateway {
    Gateway::on_one_worker(origin.address(), listener)
}

/// Repeats `attack` for a while. Asserts that the normal client does not notice it, and that
/// the process grows by at most `most_mib`.
fn withstands(gateway: &Gateway, most_mib: usize, attack: impl FnMut()) {
    effect_of(gateway, attack).is_small(most_mib, UNREMARKABLE);
}

/// What an attack does to the normal client and to the process.
struct Effect {
    grown_mib: usize,
    /// The median wait of the client before the attack, and during it.
    before: Duration,
    during: Duration,
    /// How long the longest attack took.
    attack: Duration,
}

/// Repeats `attack` for a while.
fn effect_of(gateway: &Gateway, mut attack: impl FnMut()) -> Effect {
    let _alone = alone();
    let quiet = meanwhile(gateway, || std::thread::sleep(LENGTH));
    let usual_kib = gateway.resident_kib();
    let end = now() + LENGTH;
    let mut longest = Duration::ZERO;
    let busy = meanwhile(gateway, || {
        loop {
            let begun = now();
            attack();
            longest = longest.max(now().duration_since(begun));
            if now() >= end {
                break;
            }
        }
    });
    Effect {
        grown_mib: gateway.peak_kib().saturating_sub(usual_kib) / 1024,
        before: percentile(&quiet, 50),
        during: percentile(&busy, 50),
        attack: longest,
    }
}

impl Effect {
    /// Asserts that the client waits for `wait` at most, or twice as long as before, and that the
    /// process grows by at most `most_mib`.
    fn is_small(&self, most_mib: usize, wait: Duration) {
        let Self { grown_mib, before, during, attack } = *self;
        assert!(grown_mib <= most_mib, "the process has grown by {grown_mib} MiB");
        let most = wait.max(before * 2);
        assert!(during <= most, "{during:?}, and {before:?} before; an attack took {attack:?}");
    }
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

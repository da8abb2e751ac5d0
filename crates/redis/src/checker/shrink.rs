//! Makes a scenario that breaks a promise smaller, as long as it still breaks it.

use super::run::run;
use super::scenario::Scenario;

/// More attempts than this are not made.
const ATTEMPTS: usize = 200;

/// A scenario with fewer troubles, clients and nodes that breaks the same promise.
/// What its troubles leave wrong at its end is what those of the first left: a server
/// that stays away is another story than one that comes back.
pub(super) fn shrink(mut scenario: Scenario, promise: &str) -> Scenario {
    let mut attempts = 0;
    let unmended = scenario.unmended();
    loop {
        let alike = smaller(&scenario).into_iter().filter(|it| it.unmended() == unmended);
        let smaller = alike.into_iter().find(|it| {
            attempts += 1;
            attempts <= ATTEMPTS && run(it, false).broken.iter().any(|it| it.promise == promise)
        });
        match smaller {
            Some(smaller) => scenario = smaller,
            None => return scenario,
        }
    }
}

/// Scenarios that are smaller by one step, the smallest first.
fn smaller(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut less = |change: &dyn Fn(&mut Scenario)| {
        let mut it = scenario.clone();
        change(&mut it);
        all.push(it);
    };
    if !scenario.troubles.is_empty() {
        less(&|it| it.troubles.truncate(0));
    }
    for client in 0..scenario.clients.len() {
        if scenario.clients.len() > 1 {
            less(&|it| {
                it.clients.remove(client);
            });
        }
    }
    for trouble in 0..scenario.troubles.len() {
        less(&|it| {
            it.troubles.remove(trouble);
        });
        // Often one trouble is mended by another one.
        for mended in trouble + 1..scenario.troubles.len() {
            less(&|it| {
                it.troubles.remove(mended);
                it.troubles.remove(trouble);
            });
        }
    }
    for client in 0..scenario.clients.len() {
        if scenario.clients[client].charges.len() > 1 {
            less(&|it| it.clients[client].charges.truncate(1));
        }
        if scenario.clients[client].burst > 1 {
            less(&|it| it.clients[client].burst /= 2);
        }
        if scenario.clients[client].leaves_one_in > 0 {
            less(&|it| it.clients[client].leaves_one_in = 0);
        }
    }
    if scenario.workers > 1 {
        less(&|it| it.workers = 1);
    }
    if scenario.traffic_us > 3_000_000 {
        less(&|it| it.traffic_us = it.traffic_us * 3 / 4);
    }
    all
}

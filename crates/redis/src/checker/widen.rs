//! Draws what half of the runs have in addition: crowds, plans, bans, servers that refuse calls
//! or `TIME` in scripts, and slots behind one address.

use fastrand::Rng;
use tollgate_core::algorithm::{Algorithm, Ban, Quota, SlidingWindow};
use tollgate_core::time::Span;

use super::scenario::{Client, Counted, Refusal, Scenario, Servers, Settling, Trouble};

/// Separates these draws from those of the scenario.
const DRAWS: u64 = 0x5eed_0000_0000_0000;
/// How far the clocks of a master and its replica differ at most.
const CLOCKS_DIFFER_US: i64 = 100_000;
const FITS: &str = "a small limit";

/// Widens the scenario of half of the seeds.
pub(super) fn widen(scenario: &mut Scenario) {
    let mut random = Rng::with_seed(scenario.seed ^ DRAWS);
    if random.bool() {
        return;
    }
    for number in 0..scenario.clients.len() {
        match random.u32(0..6) {
            0 => crowd(&mut random, &mut scenario.clients[number]),
            1 => {
                let plan = random.u64(10..=90);
                scenario.clients[number].plan_percent = plan;
                for (counter, _) in scenario.clients[number].charges.clone() {
                    scenario.counters[counter].is_plain = false;
                }
            }
            2 => punish(&mut random, scenario, number),
            _ => {}
        }
    }
    if random.u32(0..5) == 0 {
        refuse(&mut random, scenario);
    }
    if scenario.kind == Servers::One && random.u32(0..3) == 0 {
        let at_us = if random.bool() { 0 } else { random.u64(0..scenario.traffic_us / 2) };
        scenario.troubles.push((at_us, Trouble::GetSlots { server: 0 }));
    }
    if random.u32(0..8) == 0 {
        let at_us = if random.bool() { 0 } else { random.u64(0..scenario.traffic_us / 2) };
        scenario.troubles.push((at_us, Trouble::RefuseTime));
    }
    for (_, trouble) in &mut scenario.troubles {
        if let Trouble::FailOver { ahead_us, .. } = trouble
            && random.bool()
        {
            *ahead_us = random.i64(-CLOCKS_DIFFER_US..=CLOCKS_DIFFER_US);
        }
    }
    if random.u32(0..6) == 0 {
        for _ in 0..random.u32(1..=3) {
            scenario.troubles.push((random.u64(0..scenario.traffic_us / 2), Trouble::Rotate));
        }
    }
    scenario.troubles.sort_by_key(|&(at_us, _)| at_us);
}

/// Many requests within some milliseconds.
fn crowd(random: &mut Rng, client: &mut Client) {
    client.burst = random.u32(20..=120);
    client.spread_ms = random.u64(0..=8);
    client.gap_ms = client.gap_ms.max(400);
    client.settling = Settling::AsReserved;
}

/// A client that is banned if it is refused too often.
fn punish(random: &mut Rng, scenario: &mut Scenario, client: usize) {
    let (first, _) = scenario.clients[client].charges[0];
    let Counted { key, consistency, .. } = scenario.counters[first];
    let mut beside = |algorithm| {
        let number = scenario.counters.len();
        let mut counted = Counted::new(number, 0, algorithm, consistency);
        counted.key.principal = key.principal;
        counted.is_plain = false;
        scenario.counters.push(counted);
        number
    };
    let quota = Quota::new(random.u64(1..=6), Span::from_secs(random.u64(1..=4))).expect(FITS);
    let refusals = beside(Algorithm::SlidingWindow(SlidingWindow::new(quota)));
    let length = Span::from_millis(random.u64(300..=3000));
    let ban = beside(Algorithm::Ban(Ban::new(length, Span::from_secs(10)).expect(FITS)));
    scenario.counters[refusals].binding = false;
    let client = &mut scenario.clients[client];
    client.charges.push((ban, 1));
    client.penalty = Some(refusals);
}

/// A server that refuses each call for some time.
fn refuse(random: &mut Rng, scenario: &mut Scenario) {
    let server = random.usize(0..scenario.server_count());
    let last_us = scenario.traffic_us - 1_000_000;
    let at_us = random.u64(1_500_000..=last_us / 2);
    let until_us = (at_us + random.u64(20_000..=2_000_000)).min(last_us);
    let refusal = [Refusal::NoPermission, Refusal::OutOfMemory, Refusal::WrongType];
    let refusal = *random.choice(&refusal).expect("there are some");
    scenario.troubles.push((at_us, Trouble::Refuse { server, refusal: Some(refusal) }));
    scenario.troubles.push((until_us, Trouble::Refuse { server, refusal: None }));
    scenario.troubles.sort_by_key(|&(at_us, _)| at_us);
}

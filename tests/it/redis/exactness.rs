//! Many connections on many gateways: never is more admitted than the limit, in
//! any window.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use super::{PATIENT, node_of, wait_for_store};
use crate::support::Gateway;
use crate::support::load::{Load, Plan, Sample};
use crate::support::redis::{Options, Redis};

const GATEWAYS: usize = 4;
const CONNECTIONS: usize = 64;
const MANY: usize = 500;

/// How long it lasts: 30 for the full run.
fn run_secs() -> u64 {
    let seconds = std::env::var("TOLLGATE_EXACTNESS_SECS").ok();
    seconds.map_or(3, |text| text.parse().expect("TOLLGATE_EXACTNESS_SECS is a number"))
}

#[test]
fn four_gateways_never_admit_more_than_one_limit() {
    assert!(run_secs() < 60, "within a window of one minute, the limit is all that is admitted");
    let redis = Redis::start(Options::default());
    let store = format!("url: \"{}\", {PATIENT}", redis.url());
    let policies = "one: { key: global, limit: 1000/minute, buckets: 60 }, \
                    many: { key: \"header:x-who\", limit: 10/s, buckets: 10 }";
    let start = |names| {
        let gateways: Vec<Gateway> =
            (0..GATEWAYS).map(|_| node_of(&store, policies, names, 1)).collect();
        gateways.iter().for_each(wait_for_store);
        gateways
    };
    for (names, clients) in [("[one]", 1), ("[many]", MANY)] {
        let gateways = start(names);
        let load = Load::start(&Plan {
            addresses: gateways.iter().map(Gateway::address).collect(),
            connections: CONNECTIONS,
            path: "/",
            clients,
            rest: Duration::ZERO,
        });
        thread::sleep(Duration::from_secs(run_secs()));
        let samples = load.stop();
        assert!(
            samples.iter().all(|sample| !sample.is_local && [200, 429].contains(&sample.status))
        );
        if clients == 1 {
            let admitted = samples.iter().filter(|sample| sample.status == 200).count();
            assert_eq!(admitted, 1000, "of {} requests", samples.len());
        } else {
            let most = most_in_a_window(&samples, Duration::from_secs(1));
            assert_eq!(most, 10, "of {} requests", samples.len());
        }
    }
}

/// The most that any client was admitted for certain within a window of this
/// length: what was asked after the window began and answered before it ended.
fn most_in_a_window(samples: &[Sample], window: Duration) -> usize {
    let mut by_client: HashMap<usize, Vec<&Sample>> = HashMap::new();
    for sample in samples.iter().filter(|sample| sample.status == 200) {
        by_client.entry(sample.client).or_default().push(sample);
    }
    let within = |own: &[&Sample], first: usize| {
        let end = own[first].sent + window;
        own[first..].iter().filter(|sample| sample.sent + sample.wait <= end).count()
    };
    let most = by_client.values().flat_map(|own| (0..own.len()).map(|first| within(own, first)));
    most.max().unwrap_or(0)
}

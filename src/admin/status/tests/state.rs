//! What a gateway knows at a scrape.

use std::collections::BTreeMap;

use super::Node;
use crate::admin::status::window::{Counted, Window};
use crate::telemetry::{Samples, Source, families, model_families};

/// What a gateway knows at a scrape.
#[derive(Default)]
pub(super) struct State(parking_lot::Mutex<BTreeMap<&'static str, f64>>);

impl State {
    pub(super) fn set(&self, name: &'static str, value: f64) {
        self.0.lock().insert(name, value);
    }
}

impl Source for State {
    fn collect(&self, samples: &mut Samples) {
        for (name, value) in &*self.0.lock() {
            match *name {
                "evictions" => samples.set(&families::STORE_EVICTIONS, &["true"], *value),
                "broken" => samples.set(&families::PROMISES, &["p", "false"], *value),
                "others" => samples.set(&families::NODES_WITH_OTHER_CONFIG, &["routes"], *value),
                "start" => samples.set(&families::CERTIFICATE_START, &["a.test"], *value),
                "expiry" => samples.set(&families::CERTIFICATE_EXPIRY, &["a.test"], *value),
                "fetched" => samples.set(&families::KEY_SET_LAST_FETCH, &["http://i/keys"], *value),
                "key_file" => samples.set(&families::KEY_FILE_LAST_LOAD, &["keys.yaml"], *value),
                "password_file" => {
                    samples.set(&families::PASSWORD_FILE_LAST_LOAD, &["htpasswd"], *value)
                }
                "class_file" => {
                    samples.set(&families::CLASS_FILE_LAST_LOAD, &["classes.yaml"], *value)
                }
                "price_file" => {
                    samples.set(&model_families::PRICE_FILE_LAST_LOAD, &["prices.yaml"], *value)
                }
                "keys_away" => samples.set(&families::KEY_STORE_AWAY, &["no_sign"], *value),
                "duplicates" => samples.set(&families::KEYS_IN_FILE_AND_STORE, &[], *value),
                "left_out" => samples.set(&families::KEYS_LEFT_OUT, &["http://i/keys"], *value),
                "xds" => samples.set(&families::XDS_CONNECTED, &["https://eg:18001"], *value),
                "xds_taken" => {
                    samples.set(&families::XDS_LAST_TAKEN, &["https://eg:18001"], *value)
                }
                "replicas" => samples.set(&families::REPLICAS_AWAY, &[], *value),
                "open" => samples.set(&families::PROCESS_OPEN_FDS, &[], *value),
                "files" => samples.set(&families::PROCESS_MAX_FDS, &[], *value),
                "lines" => samples.set(&families::LOG_LINES_DROPPED, &["access"], *value),
                other => panic!("{other}"),
            }
        }
    }
}

/// A client that begins many series must not hide what policies decide.
#[test]
fn metrics_without_room_are_a_reason() {
    let mut node = Node::new();
    let requests = |it: &Node, methods: std::ops::Range<u64>, status: &str, count: u64| {
        for method in methods {
            let labels = [&*format!("M{method}"), status, "/*", "r", ""];
            let whole = it.worker.histogram(&families::REQUEST_DURATION, &labels);
            (0..count).for_each(|_| whole.observe(1));
        }
    };
    requests(&node, 0..1000, "200", 1);
    node.after(5);
    assert_eq!(node.reasons(), [], "there is room for 1,000");
    requests(&node, 1000..1001, "200", 1);
    node.after(5);
    assert!(matches!(node.reasons()[..], [("series_full", "", 0..=5)]), "{:?}", node.reasons());
    requests(&node, 2000..2001, "503", 100);
    node.decisions("late", "admitted", 1);
    node.decisions("late", "refused", 59);
    node.after(5);
    let found: Vec<_> = node.reasons().iter().map(|(code, about, _)| (*code, *about)).collect();
    let expected =
        [("requests_fail", "r"), ("refuses_unusually_many", "late"), ("series_full", "")];
    assert_eq!(found, expected);
}

#[test]
fn what_happens_before_the_first_reading_is_judged() {
    let mut node = Node::new();
    node.window = Window::default();
    node.decisions("p", "failed_open", 1);
    node.after(1);
    assert_eq!(node.reasons(), [("failed_open", "p", 0)]);
    assert_eq!(node.window.growth(Counted::Judged).get("p"), Some(&1.0));
}

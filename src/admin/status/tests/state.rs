//! What a gateway knows at a scrape.

use std::collections::BTreeMap;

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

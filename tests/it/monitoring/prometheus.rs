//! A Prometheus that scrapes each second, with the rules that are shipped.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::Client;

/// A running Prometheus. It is stopped when the value is dropped.
pub(super) struct Prometheus {
    process: Child,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Prometheus {
    /// Starts with the configuration of `shipped`, but scrapes `targets` each second.
    pub(super) fn start(shipped: &Path, targets: &[SocketAddr]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        fs::copy(shipped.join("alerts.yml"), path("alerts.yml")).expect("it is shipped");
        let config = fs::read_to_string(shipped.join("prometheus.yml")).expect("it is shipped");
        let targets: Vec<String> = targets.iter().map(|it| format!("\"{it}\"")).collect();
        let changed = config
            .replace("_interval: 15s", "_interval: 1s")
            .replace("[gateway-1:9902, gateway-2:9902]", &format!("[{}]", targets.join(", ")));
        assert_eq!(changed.matches("_interval: 1s").count(), 2);
        assert!(changed.contains(&targets[0]));
        fs::write(path("prometheus.yml"), changed).expect("a file");
        let mut process = Command::new("prometheus")
            .arg("--web.listen-address=127.0.0.1:0")
            .arg(format!("--config.file={}", path("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("prometheus is installed: scripts/test installs it");
        let mut lines = BufReader::new(process.stderr.take().expect("it is piped")).lines();
        let mut log = String::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else { panic!("prometheus ended:\n{log}") };
            let _ = writeln!(log, "{line}");
            if line.contains("\"Listening on\"")
                && let Some(address) = line.split("address=").nth(1)
            {
                break address.trim().parse().expect("an address");
            }
        };
        // It must not wait for a reader of its log.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address, _directory: directory }
    }

    fn get(&self, path: &str) -> Value {
        let response = Client::connect(self.address).get(path, &["Connection: close"]);
        assert!([200, 503].contains(&response.status), "{path}: {}", response.text());
        if response.status == 200 { response.json() } else { Value::Null }
    }

    /// Whether a query has a number as its result.
    pub(super) fn has_value(&self, query: &str) -> bool {
        let encoded = query.bytes().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "%{byte:02x}");
            text
        });
        let found = self.get(&format!("/api/v1/query?query={encoded}"));
        let series = found["data"]["result"].as_array().map_or(&[][..], Vec::as_slice);
        let value = |it: &Value| it["value"][1].as_str().and_then(|it| it.parse::<f64>().ok());
        series.iter().filter_map(value).any(f64::is_finite)
    }

    /// The names and the expressions of all alerts, as soon as they are loaded.
    pub(super) fn rules(&self) -> Vec<(String, String)> {
        let mut rules = Vec::new();
        crate::support::eventually("the rules are loaded", || {
            let found = self.get("/api/v1/rules?type=alert");
            let groups = found["data"]["groups"].as_array().cloned().unwrap_or_default();
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            rules = groups
                .iter()
                .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
                .map(|rule| (text(&rule["name"]), text(&rule["query"])))
                .collect();
            !rules.is_empty()
        });
        rules
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! Logs of a gateway of this program, replayed by it.

use serde_json::Value;

use super::{Place, notes};
use crate::support::Gateway;

const POLICIES: &str = "\
policies:
  per-key: { key: \"header:x-key\", limit: 5/minute }
  burst: { key: ip, limit: 3/2s, algorithm: token_bucket, burst: 9 }
  logins: { key: ip, limit: 2/hour, algorithm: fixed_window, count: { status: [401] } }
  candidate: { key: global, limit: 8/hour, mode: shadow }
routes:
- { path: /a, policies: [per-key, candidate], respond: { body: ok } }
- { path: /b, policies: [burst, per-key], respond: { body: ok } }
- { path: /c, policies: [logins], respond: { status: 401, body: no } }
runtime: { workers: 1 }
";

/// The log of a run with this format, and the statuses that its clients have seen. The
/// configuration is in `gateway.yaml` of the place.
fn run(place: &Place, format: &str) -> (String, Vec<u16>) {
    let yaml = format!("listeners: [{{ address: \"127.0.0.1:0\" }}]\n{POLICIES}");
    place.write("gateway.yaml", yaml.as_bytes());
    let mut gateway = Gateway::start_logging(&yaml, format);
    let mut client = gateway.client();
    let mut statuses = Vec::new();
    for number in 0..60 {
        let path = ["/a", "/b", "/c", "/none"][number % 4];
        let field = format!("X-Key: secret-{}", number % 3);
        statuses.push(client.get(path, &[&field]).status);
    }
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(0));
    let text = std::fs::read_to_string(gateway.access_log()).expect("the log");
    (place.write("access.log", text.as_bytes()), statuses)
}

fn refused(statuses: &[u16]) -> u64 {
    statuses.iter().map(|status| u64::from(*status == 429)).sum()
}

/// Keys are ids, addresses are masked, and the clients' fields are not in the log.
#[test]
fn a_log_with_keys_is_replayed_exactly() {
    let place = Place::new(&[]);
    let (log, statuses) = run(&place, "json, keys: true");
    let report = place.report(&[&log]);
    let totals = &report["totals"];
    assert_eq!((&totals["repeated"], &totals["different"]), (&45.into(), &0.into()), "{totals:#}");
    assert_eq!(totals["refused"], refused(&statuses));
    assert!(refused(&statuses) > 15, "{statuses:?}");
    assert_eq!(notes(&report), [""; 0]);
    let shadow = report["policies"].as_array().expect("policies").iter();
    let shadow = shadow.filter(|it| it["name"] == "candidate").map(|it| it["refused"].as_u64());
    let text = std::fs::read_to_string(&log).expect("the log");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let logged = lines.filter(|line| line["shadow_refused_by"] == "candidate").count();
    assert_eq!(shadow.collect::<Vec<_>>(), [u64::try_from(logged).ok()]);
    let output = place.replay(&[&log]);
    assert!(output.stdout.contains("\n45 decisions are those of the log, 0 are not\n"));
}

/// All formats are read, as far as they say what limits need.
#[test]
fn a_log_in_any_format_is_replayed() {
    for (format, name) in [
        ("text, client: full", "tollgate-text"),
        ("combined, client: full", "combined"),
        ("json, names: otel, sample: 0%", "tollgate-otel"),
        ("json, names: ecs, client: full", "tollgate-ecs"),
    ] {
        let place = Place::new(&[]);
        let (log, statuses) = run(&place, format);
        let report = place.report(&[&log]);
        assert_eq!(report["log"]["format"], name);
        assert_eq!(report["log"]["unread"], 0, "{report:#}");
        let sampled =
            notes(&report).into_iter().filter(|note| note.contains("is a sample")).count();
        if format.contains("sample") {
            assert_eq!((sampled, &report["log"]["requests"]), (1, &refused(&statuses).into()));
        } else {
            assert_eq!((sampled, &report["log"]["requests"]), (0, &60.into()));
        }
    }
}

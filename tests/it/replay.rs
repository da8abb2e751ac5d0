//! `tollgate replay` on small logs, with exact numbers.

mod options;
mod own_log;
mod page;

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Gateway, Origin, Output, Program};

/// A directory with a configuration and logs.
struct Place(tempfile::TempDir);

impl Place {
    /// With a configuration of these policies, all on one route.
    fn new(policies: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        place.write("gateway.yaml", configuration(policies).as_bytes());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &[u8]) -> String {
        std::fs::write(self.path(name), text).expect("a file");
        self.path(name).display().to_string()
    }

    fn replay(&self, arguments: &[&str]) -> Output {
        let config = self.path("gateway.yaml").display().to_string();
        Program::run(&[&["replay", "-c", &config], arguments].concat())
    }

    /// The report in JSON, of a replay that succeeds.
    fn report(&self, arguments: &[&str]) -> Value {
        let output = self.replay(&[&["--json"], arguments].concat());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        serde_json::from_str(&output.stdout).expect("JSON")
    }
}

fn configuration(policies: &[(&str, &str)]) -> String {
    let mut text = "listeners: [{ address: \"127.0.0.1:0\" }]\npolicies:\n".to_owned();
    for (name, fields) in policies {
        let _ = writeln!(text, "  {name}: {{ {fields} }}");
    }
    let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
    let _ = writeln!(
        text,
        "routes: [{{ path: \"/*\", policies: [{}], respond: {{ body: ok }} }}]",
        names.join(", ")
    );
    text
}

/// A line of the combined format, so many seconds after 07:00.
fn combined(client: &str, second: u64) -> String {
    let minute = second / 60;
    let second = second % 60;
    format!(
        "{client} - - [21/Nov/2026:07:{minute:02}:{second:02} +0000] \"GET /a?b HTTP/1.1\" 200 12 \
         \"-\" \"curl/8\"\n"
    )
}

fn notes(report: &Value) -> Vec<&str> {
    report["notes"].as_array().expect("notes").iter().filter_map(Value::as_str).collect()
}

/// Of ten requests in one fixed minute, four are beyond a limit of six. A second client
/// and a second minute count apart.
#[test]
fn refusals_are_those_of_the_limit() {
    let place = Place::new(&[("per-client", "key: ip, limit: 6/minute, algorithm: fixed_window")]);
    let mut log = String::new();
    for second in 0..10 {
        log += &combined("192.0.2.1", second);
    }
    for second in [61, 62, 63] {
        log += &combined("192.0.2.1", second);
        log += &combined("192.0.2.2", second);
    }
    let log = place.write("access.log", log.as_bytes());
    let report = place.report(&[&log]);
    assert_eq!(report["log"]["format"], "combined");
    assert_eq!((&report["log"]["lines"], &report["log"]["unread"]), (&16.into(), &0.into()));
    assert_eq!(report["log"]["from"], "2026-11-21T07:00:00.000Z");
    assert_eq!(report["totals"]["judged"], 16);
    assert_eq!(report["totals"]["refused"], 4);
    let policy = &report["policies"][0];
    assert_eq!((&policy["name"], &policy["judged"]), (&"per-client".into(), &16.into()));
    assert_eq!((&policy["refused"], &policy["keys_hit"]), (&4.into(), &1.into()));
    // The first refusal is at 6.5 s: the window ends 53.5 s later.
    assert_eq!(policy["longest_wait_ms"], 53_500);
    assert_eq!(policy["worst_minute"]["at"], "2026-11-21T07:00:00.000Z");
    assert_eq!(policy["worst_minute"]["refused"], 4);
    assert_eq!(notes(&report), [""; 0]);
}

#[test]
fn a_table_shows_the_results() {
    let place = Place::new(&[
        ("per-client", "key: ip, limit: 6/minute, algorithm: fixed_window"),
        ("key", "key: \"header:x-tenant\", limit: 1000/hour, mode: shadow"),
    ]);
    let log: String = (0..10).map(|second| combined("192.0.2.1", second)).collect();
    let log = place.write("access.log", log.as_bytes());
    let output = place.replay(&[&log]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        output.stdout,
        "\
Replay of access.log: 21 November 2026, 07:00:00 to 07:00:09 UTC
10 lines of combined, limits of gateway.yaml
10 requests judged, 4 (40.0 %) refused

Conclusion:
- per-client (6 per minute) would refuse 4 of 10 requests (40.0 %), all of 192.0.2.1.
- key (1000 per hour) would refuse none of 10 requests.

What the replay cannot know:
- key: the log lacks header:x-tenant; requests without the key count by address (missing_key: ip)

Policies:
POLICY      LIMIT               JUDGED  REFUSED     KEYS HIT  LONGEST WAIT  WORST MINUTE
per-client  6/minute            10      4 (40.0 %)  1         54 seconds    21 Nov 07:00 (4)
key         1000/hour (shadow)  10      0 (0.0 %)   0         -             -

Over time:
From 21 Nov 07:00 UTC, 1 second a bar; the highest bar of each row:
requests    ██████████  1
per-client        ████  1 refused

Clients that would be refused:
per-client:
CLIENT     REFUSED  OF ITS REQUESTS  LONGEST WAIT  FROM             TO
192.0.2.1  4        10 (40.0 %)      54 seconds    21 Nov 07:00:06  21 Nov 07:00:09
"
    );
}

/// Ten requests in one second, of two in a second: even distances admit more of them than
/// the start of the second does.
#[test]
fn whole_seconds_give_a_range_for_short_windows() {
    let place = Place::new(&[("burst", "key: ip, limit: 20/s, algorithm: token_bucket, burst: 2")]);
    let log: String = (0..20).map(|at| combined("192.0.2.1", at / 10)).collect();
    let log = place.write("access.log", log.as_bytes());
    let report = place.report(&[&log]);
    assert_eq!(report["policies"][0]["refused"], 0);
    assert_eq!(report["policies"][0]["refused_range"], serde_json::json!([0, 16]));
    assert_eq!(report["totals"]["refused_range"], serde_json::json!([0, 16]));
    let output = place.replay(&[&log]);
    assert!(output.stdout.contains("  0 to 16 (0.0 to 80.0 %)  "), "{}", output.stdout);
}

/// nginx writes a line when the response has ended. Two requests of 2 s that end at the
/// same time as a later one have arrived before it.
#[test]
fn requests_arrive_at_their_ends_less_their_durations() {
    let place = Place::new(&[("jobs", "key: ip, limit: 1, algorithm: concurrency")]);
    let line = |second, took: &str| combined("192.0.2.1", second).trim().to_owned() + took + "\n";
    let one_after_another = line(10, " 2.000") + &line(12, " 1.000");
    let at_the_same_time = line(10, " 2.000") + &line(12, " 3.500");
    for (text, refused) in [(one_after_another, 0), (at_the_same_time, 1)] {
        let log = place.write("access.log", text.as_bytes());
        assert_eq!(place.report(&[&log])["policies"][0]["refused"], refused, "{text}");
    }
    let log = place.write("access.log", combined("192.0.2.1", 1).as_bytes());
    let report = place.report(&[&log]);
    assert!(notes(&report)[0].contains("the log lacks durations"), "{:?}", notes(&report));
}

#[test]
fn more_than_one_unread_line_in_a_hundred_is_a_failure() {
    let place = Place::new(&[("per-client", "key: ip, limit: 6/minute")]);
    let good: String = (0..99).map(|at| combined("192.0.2.1", at)).collect();
    let log = place.write("good.log", (good.clone() + "junk\n").as_bytes());
    let report = place.report(&[&log]);
    assert_eq!(
        notes(&report),
        [format!("1 of 100 lines could not be read; the first is {log}:100")]
    );
    let log = place.write("bad.log", (good + "junk\n\njunk\n").as_bytes());
    let output = place.replay(&[&log]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("2 lines not read"), "{}", output.stdout);
    assert!(output.stderr.starts_with("error: more than 1 % of the lines"), "{}", output.stderr);
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let place = Place::new(&[("per-client", "key: ip, limit: 6/minute")]);
    let junk = place.write("junk.log", b"junk\nmore junk\n");
    let good = place.write("good.log", combined("192.0.2.1", 1).as_bytes());
    let cases: [(&[&str], i32, &str); 7] = [
        (&["/nowhere/access.log"], 1, "error: cannot read /nowhere/access.log: "),
        (&[&junk], 1, "error: the format of the log is not recognised"),
        (
            &["--format", "combined", &junk],
            1,
            "error: no line of the log is a request in the format combined",
        ),
        (
            &["--format", "nginx", &good],
            2,
            "error: there is no format `nginx`: formats are common, combined,",
        ),
        (&["--map", "time=ts", &good], 2, "error: --map: a log needs the client"),
        (&["-", "-"], 2, "error: `-` can be named once only"),
        (&[], 2, "error: the following required arguments"),
    ];
    for (arguments, code, start) in cases {
        let output = place.replay(arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(code), ""), "{arguments:?}");
        assert!(output.stderr.starts_with(start), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn the_own_log_is_replayed_with_masked_clients() {
    let place = Place::new(&[("per-client", "key: ip, limit: 2/minute, algorithm: fixed_window")]);
    let line = |ms: u64, outcome: &str| {
        format!(
            "{{\"time\":\"2026-11-21T07:00:00.{ms:03}Z\",\"request_id\":\"x\",\"client\":\"192.0.2.0/24\",\
             \"method\":\"GET\",\"path\":\"/\",\"status\":200,\"bytes\":2,\"duration_us\":9,\"outcome\":\"{outcome}\"}}\n"
        )
    };
    let text = line(1, "admitted")
        + &line(2, "admitted")
        + "{\"dropped_lines\":3}\n"
        + &line(3, "refused");
    let log = place.write("access.log", text.as_bytes());
    let report = place.report(&[&log]);
    assert_eq!(report["log"]["format"], "tollgate");
    assert_eq!((&report["totals"]["judged"], &report["totals"]["refused"]), (&3.into(), &1.into()));
    let expected = [
        "the log says that 3 lines were dropped",
        "3 requests have a masked address: all clients of a network count as one",
    ];
    assert_eq!(notes(&report), expected);
}

/// The same log gives the same report, whole or in rotated pieces in any order.
#[test]
fn rotated_and_compressed_logs_are_one_log() {
    let place = Place::new(&[("per-client", "key: ip, limit: 6/minute")]);
    let lines: Vec<String> = (0..200).map(|at| combined("192.0.2.1", at)).collect();
    let whole = place.write("whole.log", lines.concat().as_bytes());
    let old = place.write("access.log.1", lines[..90].concat().as_bytes());
    let new = place.write("access.log", lines[90..].concat().as_bytes());
    let report = |logs: &[&str]| {
        let mut report = place.report(logs);
        let files = report["log"].as_object_mut().and_then(|log| log.remove("files"));
        assert_eq!(files, Some(logs.into()));
        report
    };
    let expected = report(&[&whole]);
    assert!(expected["totals"]["refused"].as_u64() > Some(100), "{expected}");
    assert_eq!(report(&[&new, &old]), expected);
    let gzip = std::process::Command::new("gzip").arg("-k").arg(&whole).status();
    assert!(gzip.expect("gzip is there").success());
    assert_eq!(report(&[&format!("{whole}.gz")]), expected);
}

/// Refusals under `count` by status are given back at the end, as the gateway does.
#[test]
fn statuses_and_sizes_settle_costs() {
    let place = Place::new(&[
        ("logins", "key: ip, limit: 2/minute, algorithm: fixed_window, count: { status: [401] }"),
        (
            "volume",
            "key: ip, limit: 100/minute, algorithm: fixed_window, cost: { reserve: 1, settle: { response_bytes: 1 } }",
        ),
    ]);
    let line = |second, status: u16| {
        combined("192.0.2.1", second).replace("200 12", &format!("{status} 30"))
    };
    let text: String =
        [200, 200, 401, 401, 200].iter().zip(0..).map(|(status, at)| line(at, *status)).collect();
    let log = place.write("access.log", text.as_bytes());
    let report = place.report(&[&log]);
    // After two failures, the fifth request is refused by the first policy. The second one
    // has counted 120 of 100 bytes then.
    assert_eq!(report["policies"][0]["refused"], 1, "{report:#}");
    assert_eq!(report["policies"][1]["refused"], 1, "{report:#}");
}

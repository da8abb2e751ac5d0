//! `tollgate replay` on small logs, with exact numbers.

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
    let (minute, second) = (second / 60, second % 60);
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
note: key: the log lacks header:x-tenant; requests without the key count by address (missing_key: ip)

10 lines of combined, 2026-11-21T07:00:00.000Z to 2026-11-21T07:00:09.000Z
10 requests judged, 4 (40.0 %) refused

POLICY      LIMIT             JUDGED  REFUSED     KEYS HIT  LONGEST WAIT  WORST MINUTE
per-client  6/1m              10      4 (40.0 %)  1         54s           2026-11-21T07:00 (4)
key         1000/1h (shadow)  10      0 (0.0 %)   0         -             -

Over time, 1s a bar; the highest bar of each row:
requests    ██████████  1
per-client        ████  1 refused
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
    let expected = place.report(&[&whole]);
    assert!(expected["totals"]["refused"].as_u64() > Some(100), "{expected}");
    assert_eq!(place.report(&[&new, &old]), expected);
    let gzip = std::process::Command::new("gzip").arg("-k").arg(&whole).status();
    assert!(gzip.expect("gzip is there").success());
    assert_eq!(place.report(&[&format!("{whole}.gz")]), expected);
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

/// The new limit is lower for one policy, and the other policy is gone.
#[test]
fn two_configurations_are_compared() {
    let place = Place::new(&[("per-client", "key: ip, limit: 3/minute, algorithm: fixed_window")]);
    let old = configuration(&[
        ("per-client", "key: ip, limit: 5/minute, algorithm: fixed_window"),
        ("all", "key: global, limit: 6/minute, algorithm: fixed_window"),
    ]);
    let old = place.write("old.yaml", old.as_bytes());
    // The old limits admit 5 of the first client and 1 of the three others. The new limit
    // admits 3 of the first client and all others.
    let mut text: String = (0..8).map(|at| combined("192.0.2.1", at)).collect();
    text.extend((2..5).map(|at| combined(&format!("192.0.2.{at}"), 10 + at)));
    let log = place.write("access.log", text.as_bytes());
    let report = place.report(&["--against", &old, &log]);
    let expected = serde_json::json!({
        "refused_before": 5,
        "newly_refused": 2,
        "clients_newly_refused": 1,
        "newly_admitted": 2,
        "clients_newly_admitted": 2,
        "policies": [
            { "name": "per-client", "before": 3, "after": 5 },
            { "name": "all", "before": 2, "after": null },
        ],
    });
    assert_eq!(report["against"], expected);
    let output = place.replay(&["--against", &old, &log]);
    let table = "
Against the other configuration, which refuses 5:
2 requests of 1 clients are newly refused
2 requests of 2 clients are newly admitted

POLICY      REFUSED BEFORE  REFUSED NOW
per-client  3               5
all         2               -
";
    assert!(output.stdout.ends_with(table), "{}", output.stdout);
    let output = place.replay(&["--against", "/nowhere/old.yaml", &log]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
}

/// A hundred clients with five requests, and one with a thousand in the same minute.
#[test]
fn limits_are_suggested_and_tried() {
    let place = Place::new(&[("per-client", "key: ip, limit: 1/minute, algorithm: fixed_window")]);
    let mut text = String::new();
    for client in 0..100 {
        text.extend((0..5).map(|_| combined(&format!("192.0.2.{client}"), 5)));
    }
    for second in 10..60 {
        text.extend((0..20).map(|_| combined("203.0.113.9", second)));
    }
    let log = place.write("access.log", text.as_bytes());
    let report = place.report(&["--suggest", &log]);
    let suggestions = &report["suggestions"];
    assert_eq!((&suggestions["tried"], &suggestions["sampled_one_of"]), (&true.into(), &1.into()));
    let policy = &suggestions["policies"][0];
    assert_eq!((&policy["name"], &policy["keys"]), (&"per-client".into(), &101.into()));
    let second = &policy["windows"][0];
    assert_eq!(
        (&second["window"], &second["p50"], &second["p999"]),
        (&"1s".into(), &5.into(), &20.into())
    );
    assert_eq!((&second["proposed"], &second["left_out"]), (&50.into(), &0.into()));
    assert_eq!(second["trial"], serde_json::json!({ "judged": 1500, "refused": 0, "keys_hit": 0 }));
    let minute = &policy["windows"][2];
    assert_eq!(
        (&minute["window"], &minute["p99"], &minute["p999"]),
        (&"1m".into(), &5.into(), &5.into())
    );
    assert_eq!((&minute["proposed"], &minute["left_out"]), (&10.into(), &1.into()));
    assert_eq!(minute["listed"], serde_json::json!([{ "client": "203.0.113.9", "peak": 1000 }]));
    assert_eq!(
        minute["trial"],
        serde_json::json!({ "judged": 1500, "refused": 990, "keys_hit": 1 })
    );
    let output = place.replay(&["--suggest", &log]);
    let row = "1m      5    5    5    5      10/1m     990 (66.0 %) of 1 keys  1\n";
    assert!(output.stdout.contains(row), "{}", output.stdout);
}

/// A bucket's own pace would refuse what the proposed number in a window admits.
#[test]
fn suggested_limits_of_a_bucket_are_tried_as_numbers_in_a_window() {
    let place = Place::new(&[("burst", "key: ip, limit: 2/s, algorithm: token_bucket, burst: 5")]);
    let text: String = (0..30).map(|at| combined("192.0.2.1", at)).collect();
    let log = place.write("access.log", text.as_bytes());
    let report = place.report(&["--suggest", &log]);
    let hour = &report["suggestions"]["policies"][0]["windows"][3];
    assert_eq!((&hour["p999"], &hour["proposed"]), (&30.into(), &50.into()));
    assert_eq!(hour["trial"], serde_json::json!({ "judged": 30, "refused": 0, "keys_hit": 0 }));
}

/// The first bytes come through a pipe, and the limits are proposed and not tried.
#[test]
fn standard_input_is_read_once() {
    let place = Place::new(&[("per-client", "key: ip, limit: 2/minute, algorithm: fixed_window")]);
    let text: String = (0..5).map(|at| combined("192.0.2.1", at)).collect();
    let mut command = Program::command();
    command.args(["replay", "--json", "--suggest", "-c"]).arg(place.path("gateway.yaml")).arg("-");
    let mut program = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut stdin = program.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, text.as_bytes()).expect("written");
    drop(stdin);
    let output = program.wait_with_output().expect("an end");
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["totals"]["judged"], &report["totals"]["refused"]), (&5.into(), &3.into()));
    assert_eq!(report["suggestions"]["tried"], false);
    let note = "the suggested limits were not tried: standard input cannot be read twice";
    assert_eq!(notes(&report), [note]);
}

#[test]
fn a_page_contains_everything_and_no_foreign_markup() {
    let place = Place::new(&[("per-client", "key: ip, limit: 1/minute, algorithm: fixed_window")]);
    let lines: String = (0..150).map(|at| combined("192.0.2.1", at)).collect();
    let log = place.write("a<b>&.log", (lines + "junk\n").as_bytes());
    let page = place.path("report.html").display().to_string();
    let output = place.replay(&["--html", &page, "--suggest", &log]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("a&lt;b&gt;&amp;.log:151</li>"), "{page}");
    assert!(page.contains("150 requests judged, 147 (98.0 %) refused."), "{page}");
    assert!(page.contains("<h2>Suggested limits for per-client</h2>"), "{page}");
    assert_eq!(page.matches("<svg ").count(), 2);
    assert_eq!(page.matches("<rect class=\"refused\"").count(), 2 * 147);
    for foreign in ["<script", "src=", "href=", "url(", "://"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let output = place.replay(&["--html", "/nowhere/report.html", &log]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.starts_with("error: cannot write /nowhere/report.html: "));
}

/// Two routes by host, and a key in a field that the map names.
#[test]
fn a_map_gives_fields_and_an_option_the_host() {
    let place = Place::new(&[(
        "tenant",
        "key: \"header:x-tenant\", limit: 2/minute, algorithm: fixed_window",
    )]);
    let config = configuration(&[(
        "tenant",
        "key: \"header:x-tenant\", limit: 2/minute, algorithm: fixed_window",
    )]);
    place.write("gateway.yaml", config.replace("path:", "hosts: [a.test], path:").as_bytes());
    let line = |tenant: &str| {
        format!(
            "{{\"ts\":1795244400123,\"ip\":\"192.0.2.1\",\"url\":\"/x\",\"tenant\":\"{tenant}\"}}\n"
        )
    };
    let text = line("a") + &line("a") + &line("b") + &line("a");
    let log = place.write("requests.json", text.as_bytes());
    let map = ["--map", "time=ts,client=ip,path=url,header:x-tenant=tenant"];
    let report = place.report(&[&map[..], &["--host", "a.test", &log]].concat());
    assert_eq!((&report["totals"]["judged"], &report["totals"]["refused"]), (&4.into(), &1.into()));
    assert_eq!(notes(&report), [""; 0]);
    let report = place.report(&[&map[..], &[&log]].concat());
    assert_eq!(
        (&report["totals"]["judged"], &report["totals"]["no_route"]),
        (&0.into(), &4.into())
    );
    assert_eq!(
        notes(&report),
        ["1 routes name hosts, and the log has none: name the host with --host"]
    );
}

/// A gateway writes its access log, and a replay of that log refuses as many requests as the
/// gateway did.
#[test]
fn a_replay_refuses_what_the_gateway_refused() {
    let origin = Origin::hello();
    let gateway = Gateway::limiting(&origin, "key: ip, limit: 4/day, algorithm: token_bucket");
    let mut client = gateway.client();
    let statuses: Vec<u16> = (0..9).map(|_| client.get("/", &[]).status).collect();
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!(refused, 5, "{statuses:?}");
    let place = Place::new(&[]);
    let log = place.write("access.log", gateway.access_text(9).as_bytes());
    let config = gateway.file().display().to_string();
    let output = Program::run(&["replay", "--json", "-c", &config, &log]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(
        (&report["log"]["format"], &report["log"]["requests"]),
        (&"tollgate".into(), &9.into())
    );
    assert_eq!(report["policies"][0]["refused"], refused);
}

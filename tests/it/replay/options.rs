//! The options of `tollgate replay`, and a log that a gateway has written.

use super::*;

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
        "config": "old.yaml",
        "refused_before": 5,
        "refused_after": 5,
        "newly_refused": 2,
        "clients_newly_refused": 1,
        "newly_refused_clients": [{
            "client": "192.0.2.1", "refused": 2, "longest_wait_ms": 0,
            "first_s": 1_795_244_403, "last_s": 1_795_244_404,
        }],
        "newly_admitted": 2,
        "clients_newly_admitted": 2,
        "policies": [
            {
                "name": "per-client", "before": 3, "after": 5,
                "limit_before": "5/1m", "limit_after": "3/1m",
                "keys_hit_before": 1, "keys_hit_after": 1,
            },
            {
                "name": "all", "before": 2, "after": null,
                "limit_before": "6/1m", "limit_after": null,
                "keys_hit_before": 1, "keys_hit_after": null,
            },
        ],
    });
    assert_eq!(report["against"], expected);
    let output = place.replay(&["--against", &old, &log]);
    let table = "
From old.yaml to gateway.yaml:
POLICY        LIMIT BEFORE  LIMIT NOW  REFUSED BEFORE  REFUSED NOW  CHANGE  KEYS HIT BEFORE  KEYS HIT NOW
per-client    5/minute      3/minute   3               5            +2      1                1
all           6/minute      -          2               -            -2      1                -
all together                           5               5            0

Clients with requests that are newly refused:
CLIENT     NEWLY REFUSED  FROM             TO
192.0.2.1  2              21 Nov 07:00:03  21 Nov 07:00:04
";
    assert!(output.stdout.ends_with(table), "{}", output.stdout);
    let sentence = "- Compared with old.yaml, 2 requests of 1 client are newly refused, and 2 requests of 2 \
                    clients are newly admitted.\n";
    assert!(output.stdout.contains(sentence), "{}", output.stdout);
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
    let rows = [
        "\n  limit: 10/minute   for per-client: now 1/minute; would refuse 990 (66.0 %) of 1 client\n",
        "\n1m      5    5    5    5      10/minute  990 (66.0 %) of 1 client  1\n",
        "\nLeft out in 1m: 203.0.113.9 (1,000)\n",
    ];
    for row in rows {
        assert!(output.stdout.contains(row), "{row}{}", output.stdout);
    }
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

/// The first bytes come through a pipe, and the limits are proposed and not tried. With a name for
/// the pipe, they were tried on nothing and would refuse none.
#[test]
fn a_pipe_is_read_once() {
    let place = Place::new(&[("per-client", "key: ip, limit: 2/minute, algorithm: fixed_window")]);
    let text: String = (0..5).map(|at| combined("192.0.2.1", at)).collect();
    for (name, words) in [("-", "standard input"), ("/dev/stdin", "/dev/stdin")] {
        let mut command = Program::command();
        command
            .args(["replay", "--json", "--suggest", "-c"])
            .arg(place.path("gateway.yaml"))
            .arg(name);
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
        assert_eq!(
            (&report["totals"]["judged"], &report["totals"]["refused"]),
            (&5.into(), &3.into())
        );
        assert_eq!(report["suggestions"]["tried"], false);
        let note = format!("the suggested limits were not tried: {words} cannot be read twice");
        assert_eq!(notes(&report), [note]);
    }
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
    let title = "Replay of a&lt;b&gt;&amp;.log: 21 November 2026, 07:00:00 to 07:02:29 UTC";
    assert!(page.contains(&format!("<title>{title}</title>")), "{page}");
    assert!(page.contains("<p>150 requests judged, 147 (98.0 %) refused</p>"), "{page}");
    assert!(
        page.contains("<p><code>limit: 100/minute</code> for per-client: now 1/minute"),
        "{page}"
    );
    assert_eq!(page.matches("<svg ").count(), 2);
    // What the text says, the page says.
    let words = |text: &str| {
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        escaped.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let sentences = output.stdout.lines().filter(|line| line.starts_with("- "));
    let rows = output.stdout.lines().filter(|line| line.starts_with("192.0.2.1 "));
    assert_eq!((sentences.clone().count(), rows.clone().count()), (2, 1), "{}", output.stdout);
    for sentence in sentences {
        assert!(page.contains(&format!("<li>{}</li>", words(&sentence[2..]).join(" "))), "{page}");
    }
    for cell in rows.flat_map(|row| row.split("  ").map(str::trim)).filter(|cell| !cell.is_empty())
    {
        assert!(page.contains(&format!(">{cell}</td>")), "{cell}: {page}");
    }
    for foreign in ["<script", "src=", "href=", "url(", "://"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    // A page does not replace a log, under whatever name.
    let text = std::fs::read(&log).expect("the log");
    let link = place.path("link.log");
    std::os::unix::fs::symlink(&log, &link).expect("a link");
    let link = link.display().to_string();
    for name in [&log, &link] {
        let output = place.replay(&["--html", name, &log]);
        assert_eq!(output.code, Some(2), "{}", output.stderr);
        let words = format!("error: --html: {name} is a log that is read");
        assert!(output.stderr.starts_with(&words), "{}", output.stderr);
        assert_eq!(std::fs::read(&log).expect("the log"), text);
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
    // The report says why, and a script sees that no limit was tried.
    let output = place.replay(&[&["--json"], &map[..], &[&log]].concat());
    assert_eq!(output.code, Some(1));
    assert!(
        output.stderr.starts_with("error: no policy has judged any request"),
        "{}",
        output.stderr
    );
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
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

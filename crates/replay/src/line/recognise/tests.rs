//! Logs that are recognised, and logs that are not.

use super::*;

fn recognised(lines: &[&str]) -> Option<(&'static str, Option<String>)> {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let Recognised { envelopes, format } = Recognised::of(&lines, &Format::all())?;
    Some((format.name(), envelopes.names()))
}

const COMBINED: &str = "192.0.2.7 - - [21/Nov/2026:07:28:46 +0000] \"GET / HTTP/1.1\" 200 12";

#[test]
fn a_format_is_recognised_by_its_lines() {
    let cases = [
        ("combined", COMBINED),
        (
            "tollgate",
            "{\"time\":\"2026-11-21T07:28:46.123Z\",\"client\":\"203.0.113.0/24\",\"method\":\"GET\",\"path\":\"/\"}",
        ),
        (
            "caddy",
            "{\"ts\":1.5,\"request\":{\"remote_ip\":\"::1\",\"method\":\"GET\",\"uri\":\"/\"}}",
        ),
        (
            "traefik",
            "{\"ClientHost\":\"::1\",\"RequestMethod\":\"GET\",\"RequestPath\":\"/\",\"StartUTC\":\"2026-11-21T07:28:46Z\"}",
        ),
        (
            "envoy-json",
            "{\"start_time\":\"2026-11-21T07:28:46Z\",\"method\":\"GET\",\"path\":\"/\",\"x_forwarded_for\":\"::1\"}",
        ),
        (
            "haproxy",
            "::1:42004 [21/Nov/2026:07:28:46.551] in static/srv1 0/0/0/0/0 200 1 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\"",
        ),
    ];
    for (name, line) in cases {
        assert_eq!(recognised(&["junk", line]), Some((name, None)));
        assert_eq!(Format::named(name).map(|format| format.name()), Some(name));
    }
    assert_eq!(recognised(&["junk", ""]), None);
    assert_eq!(recognised(&[]), None);
    assert_eq!(Format::named("junk"), None);
    for word in Format::words() {
        assert!(Format::named(word).is_some(), "{word}");
    }
}

/// Before, such logs were not recognised.
#[test]
fn a_log_without_any_address_is_recognised() {
    let envoy = "[2026-11-21T07:28:46.123Z] \"GET / HTTP/2\" 200 - 0 9 2 1 \"-\" \"curl\" \"id\" \"a.test\" \"10.0.0.1:80\"";
    let cases = [
        (envoy, "envoy"),
        ("client.a.test - - [21/Nov/2026:07:28:46 +0000] \"GET / HTTP/1.1\" 200 12", "combined"),
        (
            "{\"time\":\"2026-11-21T07:28:46.123Z\",\"client\":\"-\",\"method\":\"GET\",\"path\":\"/\",\"outcome\":\"admitted\"}",
            "tollgate",
        ),
        (
            "{\"start_time\":\"2026-11-21T07:28:46Z\",\"method\":\"GET\",\"path\":\"/\",\"x_forwarded_for\":null,\"response_flags\":\"-\"}",
            "envoy-json",
        ),
        (
            "unix:1 [21/Nov/2026:07:28:46.551] in static/srv1 0/0/0/0/0 200 1 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\"",
            "haproxy",
        ),
    ];
    for (line, name) in cases {
        assert_eq!(recognised(&[line]), Some((name, None)), "{line}");
    }
    // The client of another program's log has another name, and would be left out silently.
    let other = "{\"time\":\"2026-11-21T07:28:46Z\",\"method\":\"GET\",\"path\":\"/\",\"ip\":\"192.0.2.7\"}";
    assert_eq!(recognised(&[other]), None);
}

#[test]
fn what_is_around_the_lines_is_recognised() {
    let compose = format!("web-1  | {COMBINED}");
    let stamped = format!("web-1  | 2026-11-21T07:28:46.123456789Z {COMBINED}");
    let cri = format!("2026-11-21T07:28:46.123456789Z stdout F {COMBINED}");
    let starts = ["web-1  | starting", "2026-11-21T07:28:46Z stderr F starting"];
    let of = |lines: &[&str]| {
        recognised(lines).map(|(format, around)| (format, around.unwrap_or_default()))
    };
    assert_eq!(of(&[starts[0], &compose]), Some(("combined", "compose".into())));
    assert_eq!(of(&[&stamped]), Some(("combined", "timestamps in compose".into())));
    assert_eq!(of(&[starts[1], &cri]), Some(("combined", "cri".into())));
    // Most lines decide.
    assert_eq!(of(&[COMBINED, COMBINED, &cri]), Some(("combined", String::new())));
    assert_eq!(of(&[COMBINED, &cri, &cri]), Some(("combined", "cri".into())));
}

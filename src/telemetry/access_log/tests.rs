//! The lines of the access log, and which requests have one.

use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderValue, Method, Request, StatusCode};
use smallvec::smallvec;
use tollgate_core::digest::Principal;
use tollgate_core::log_fields::{FIELDS, Named};
use tollgate_core::price::Denomination;
use tollgate_core::time::{Span, Timestamp, monotonic};

use super::super::record::{Name, PolicyRecord};
use super::super::settings::{ClientAddress, Output};
use super::super::template::Template;
use super::*;

fn record() -> Record {
    let (mut head, ()) = Request::new(()).into_parts();
    head.method = Method::GET;
    head.headers.insert("host", HeaderValue::from_static("api.test:8080"));
    let client = IpAddr::from([203, 0, 113, 9]);
    let time = Timestamp::from_micros(1_795_246_126_123_456);
    let policy = |name: &str, is_binding: bool| PolicyRecord {
        name: name.into(),
        client: Some(Principal::from_bits(7)),
        cost: Some(2),
        settled: None,
        own_limit: None,
        is_elastic: false,
        is_preflight: false,
        plan: Some("pro").filter(|_| is_binding).map(Name::from),
        source: Some("store"),
        remaining: Some(0),
        is_binding,
        is_shadow_refused: !is_binding,
    };
    let mut record =
        *Record::new(&head, client, time, monotonic(), HeaderValue::from_static("id-1"));
    record.masked_path = Some("/a\"b\\c\n".into());
    record.route = Some("orders".into());
    record.policies = smallvec![policy("candidate", false), policy("per-client", true)];
    record.outcome = "refused";
    (record.is_refused, record.wait) = (true, Some(Span::from_micros(1_500_001)));
    record.status = Some(StatusCode::TOO_MANY_REQUESTS);
    (record.bytes, record.duration_us) = (12, 34);
    record
}

fn in_format(format: LineFormat) -> AccessLogSettings {
    AccessLogSettings { format: Some(format), ..AccessLogSettings::default() }
}

fn logged(settings: AccessLogSettings, records: &[Record]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("access.log");
    let settings = AccessLogSettings { output: Output::File(path.clone()), ..settings };
    let log = AccessLog::open(&settings).expect("a file that can be written");
    let worker = log.worker();
    for record in records {
        worker.write(record);
    }
    drop(worker);
    log.close_by(monotonic() + Duration::from_secs(10));
    std::fs::read_to_string(path).expect("the file")
}

#[test]
fn a_line_is_valid_json_whatever_the_client_sent() {
    let text = logged(in_format(LineFormat::Json(FieldNames::Own)), &[record()]);
    assert_eq!(
        text,
        "{\"time\":\"2026-11-21T07:28:46.123Z\",\"request_id\":\"id-1\",\"client\":\"203.0.113.0/24\",\
         \"method\":\"GET\",\"path\":\"/a\\\"b\\\\c\\u000a\",\"host\":\"api.test:8080\",\"protocol\":\"HTTP/1.1\",\
         \"status\":429,\"bytes\":12,\"duration_us\":34,\"route\":\"orders\",\"outcome\":\"refused\",\
         \"policy\":\"per-client\",\"plan\":\"pro\",\"remaining\":0,\"cost\":2,\"source\":\"store\",\
         \"wait_ms\":1501,\"shadow_refused_by\":\"candidate\"}\n"
    );
    let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(line["path"], "/a\"b\\c\n");
}

/// Viewers of logs turn or break the line at such characters. Parsers read the same text.
#[test]
fn a_line_has_no_character_that_changes_how_it_looks() {
    let path = "/a\u{202e}b\u{2028}c\u{200b}\u{e0001}é";
    let mut record = record();
    record.masked_path = Some(path.into());
    let records = [record];
    let text = logged(in_format(LineFormat::Json(FieldNames::Own)), &records);
    let written = r#""path":"/a\u202eb\u2028c\u200b\udb40\udc01é""#;
    assert!(text.contains(written), "{text}");
    let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(line["path"], path);
    let text = logged(in_format(LineFormat::Text), &records);
    assert!(text.contains(r#" "/a\u202eb\u2028c\u200b\udb40\udc01é" "#), "{text}");
}

#[test]
fn a_line_of_text_is_one_line() {
    let text = logged(in_format(LineFormat::Text), &[record()]);
    assert_eq!(
        text,
        "2026-11-21T07:28:46.123Z 203.0.113.0/24 GET \"/a\\\"b\\\\c\\u000a\" 429 12B 34us refused \
         host=\"api.test:8080\" route=\"orders\" policy=\"per-client\" plan=\"pro\" remaining=0 wait_ms=1501 \
         shadow_refused_by=\"candidate\" id=id-1\n"
    );
}

#[test]
fn a_full_queue_drops_lines_and_says_how_many() {
    let (queue, batches) = LogQueue::unread(LogKind {
        batches: 1,
        ..kind(&LineFormat::Json(FieldNames::Own), LostLines::default())
    });
    let worker = WorkerLog::new(
        queue,
        in_format(LineFormat::Json(FieldNames::Own)),
        LineFormat::Json(FieldNames::Own),
    );
    for _ in 0..3 {
        worker.write(&record());
        worker.flush();
    }
    let first = batches.recv().expect("a batch");
    assert!(!String::from_utf8_lossy(&first.bytes).contains("dropped"));
    worker.write(&record());
    worker.flush();
    let second = String::from_utf8(batches.recv().expect("a batch").bytes).expect("UTF-8");
    assert!(second.starts_with("{\"dropped_lines\":2}\n{\"time\""), "{second}");
}

#[test]
fn a_line_with_ids_says_whose_counters_were_charged_and_when() {
    let settings =
        AccessLogSettings { has_keys: true, ..in_format(LineFormat::Json(FieldNames::Own)) };
    let text = logged(settings, &[record()]);
    let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(line["time_us"], 1_795_246_126_123_456_u64);
    let id = tollgate_core::digest::PrincipalId::from(Principal::from_bits(7)).to_string();
    assert_eq!(
        line["keys"][1],
        serde_json::json!({"policy": "per-client", "id": id, "cost": 2, "plan": "pro"})
    );
}

#[test]
fn a_line_has_the_names_of_others() {
    let json = |names| {
        let mut forwarded = record();
        forwarded.attempts.add("app", "192.0.2.1:80");
        forwarded.attempts.add("app", "192.0.2.2:80");
        forwarded.store_us = Some(5);
        let text = logged(in_format(LineFormat::Json(names)), &[forwarded]);
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let otel = json(FieldNames::Otel);
    assert_eq!(otel["timestamp"], "2026-11-21T07:28:46.123Z");
    assert_eq!(otel["network.protocol.version"], "1.1");
    assert_eq!((&otel["tollgate.attempts"], &otel["tollgate.store_us"]), (&2.into(), &5.into()));
    assert_eq!(otel["tollgate.endpoint"], "192.0.2.2:80");
    assert_eq!(otel["tollgate.upstream"], "app");
    let ecs = json(FieldNames::Ecs);
    assert_eq!((&ecs["event.duration"], &ecs["http.version"]), (&34_000.into(), &"1.1".into()));
    assert_eq!((&ecs["ecs.version"], &ecs["tollgate.plan"]), (&"8.11.0".into(), &"pro".into()));
    assert_eq!(otel.as_object().map(serde_json::Map::len), Some(23));
    assert_eq!(ecs.as_object().map(serde_json::Map::len), Some(24));
}

/// Indexes that take the type of a field from its first value would cut later decimals off.
#[test]
fn an_amount_of_money_is_a_number_with_decimals_in_each_format() {
    let spent = |format, units| {
        let mut record = record();
        let denomination = "usd-6".parse::<Denomination>().expect("a denomination");
        record.spent = Some(denomination.shown(units));
        logged(in_format(format), &[record])
    };
    for (units, number) in [(0, "0.00"), (1, "0.000001"), (2_500_000, "2.50")] {
        let json = spent(LineFormat::Json(FieldNames::Ecs), units);
        assert!(json.contains(&format!("\"tollgate.spent\":{number},")), "{json}");
        let text = spent(LineFormat::Text, units);
        assert!(text.contains(&format!(" spent={number} ")), "{text}");
        let template = Template::parse("{spent}").expect("a template");
        assert_eq!(spent(LineFormat::Template(template.into()), units), format!("{number}\n"));
    }
}

#[test]
fn a_line_by_a_template_has_one_value_for_each_name() {
    let template = "{method} \"{path}\" {status} {{{wait_ms}ms}} {endpoint} {client}";
    let template = LineFormat::Template(Template::parse(template).expect("a template").into());
    let text = logged(in_format(template), &[record()]);
    assert_eq!(text, "GET \"/a\\x22b\\x5Cc\\x0A\" 429 {1501ms} - 203.0.113.0/24\n");
}

#[test]
fn a_combined_line_has_the_fields_that_other_programs_read() {
    let full = AccessLogSettings { client: ClientAddress::Full, ..in_format(LineFormat::Combined) };
    let hidden = AccessLogSettings { client: ClientAddress::Hidden, ..full.clone() };
    let rest = "- - [21/Nov/2026:07:28:46 +0000] \"GET /a\\x22b\\x5Cc\\x0A HTTP/1.1\" 429 12 \"-\" \"-\"\n";
    let lines = [in_format(LineFormat::Combined), full, hidden].map(|it| logged(it, &[record()]));
    assert_eq!(lines[0], format!("203.0.113.0 {rest}"));
    assert_eq!(lines[1], format!("203.0.113.9 {rest}"));
    assert_eq!(lines[2], format!("- {rest}"));
}

#[test]
fn a_sample_leaves_out_only_ordinary_requests() {
    let settings =
        AccessLogSettings { sample_percent: 0, ..in_format(LineFormat::Json(FieldNames::Own)) };
    let admitted = || {
        let mut record = record();
        (record.is_refused, record.status) = (false, Some(StatusCode::OK));
        record.policies.clear();
        record
    };
    assert_eq!(logged(settings.clone(), &[admitted()]), "");
    let shown = |settings: &AccessLogSettings, record| {
        let text = logged(settings.clone(), &[record]);
        serde_json::from_str::<serde_json::Value>(&text).ok().map(|it| it["sample"].clone())
    };
    assert_eq!(shown(&settings, record()), Some(100.into()), "these are always written");
    let most = AccessLogSettings { sample_percent: 99, ..settings.clone() };
    assert!((0..100).any(|_| shown(&most, admitted()) == Some(99.into())));
    let mut shadow = admitted();
    shadow.policies = record().policies;
    let mut failed = admitted();
    failed.status = Some(StatusCode::BAD_GATEWAY);
    let mut closed = admitted();
    closed.status = None;
    let mut broken = admitted();
    broken.is_broken = true;
    let mut slow = admitted();
    slow.duration_us = SLOW_US;
    for record in [record(), shadow, failed, closed, broken, slow] {
        assert_eq!(logged(settings.clone(), &[record]).lines().count(), 1);
    }
    let half = AccessLogSettings { sample_percent: 50, ..settings };
    let many: Vec<_> = (0..1000).map(|_| admitted()).collect();
    let written = logged(half, &many).lines().count();
    assert!((350..650).contains(&written), "{written} of 1000");
}

#[test]
fn the_documentation_has_the_same_table() {
    let page = include_str!("../../../docs/logs.md");
    let documented: Vec<&str> = page
        .lines()
        .skip_while(|line| *line != "| `own` | `otel` | `ecs` |")
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    let all = [FieldNames::Own, FieldNames::Otel, FieldNames::Ecs];
    let row = |it: &Named| {
        format!("| {} |", all.map(|names| format!("`{}`", it.name(names))).join(" | "))
    };
    let expected: Vec<String> = FIELDS.iter().map(row).collect();
    assert_eq!(documented, expected, "copy these rows:\n{}", expected.join("\n"));
}

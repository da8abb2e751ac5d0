//! Spans, batches, and collectors that are slow or refuse.

use std::cell::RefCell;
use std::future::{pending, ready};
use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Request, StatusCode};
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::error::OTelSdkError;
use tollgate_core::time::{Span, Timestamp, monotonic};

use super::*;
use crate::telemetry::record::PolicyRecord;

const RECEIVED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A request that a server has decided and an upstream has answered.
fn record(tracer: &Tracer, status: u16) -> Record {
    let request = Request::builder()
        .uri("/orders/secret-order?token=secret")
        .header("traceparent", RECEIVED)
        .body(())
        .expect("a request");
    let (mut head, ()) = request.into_parts();
    let trace = tracer.begin(&mut head.headers, || true);
    let client = IpAddr::from([203, 0, 113, 9]);
    let id = HeaderValue::from_static("id-1");
    let mut record =
        *Record::new(&head, client, Timestamp::from_micros(1_000_000), monotonic(), id);
    record.trace = Some(trace);
    record.route = Some("orders".into());
    record.masked_path = Some("/orders/{id}".into());
    record.decided_for("/orders/{id}");
    record.forwarded();
    record.attempts.add("app", "127.0.0.1:9000");
    record.attempts.add("app", "127.0.0.1:9001");
    record.store_us = Some(0);
    record.set_decision("admitted");
    record.policies.push(PolicyRecord {
        name: "per-client".into(),
        client: None,
        cost: Some(1),
        settled: None,
        own_limit: None,
        is_elastic: false,
        is_preflight: false,
        plan: None,
        source: Some("store"),
        remaining: Some(7),
        is_binding: true,
        is_shadow_refused: false,
    });
    record.status = StatusCode::from_u16(status).ok();
    record.upstream_us = Some(record.elapsed_us());
    record.duration_us = record.elapsed_us() + 5;
    record
}

fn batches(sample: u32) -> (Tracer, Batches) {
    let (tracer, records) = Tracer::new(sample);
    let scope = InstrumentationScope::builder("tollgate").build();
    (tracer, Batches { records, scope })
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| attribute.value.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_request_has_four_spans_in_one_trace() {
    let (tracer, mut batches) = batches(0);
    tracer.write(&record(&tracer, 200));
    let spans = batches.next().await.expect("a batch");
    let [server, decide, redis, client] = &spans[..] else { panic!("{spans:?}") };
    for span in &spans {
        let trace = span.span_context.trace_id().to_string();
        assert_eq!(trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(span.status, Status::Unset);
        let texts = format!("{span:?}");
        assert!(!texts.contains("secret") && !texts.contains("203.0.113.9"), "{texts}");
    }
    assert_eq!(server.name, "GET /orders/{id}");
    assert_eq!(server.parent_span_id.to_string(), "00f067aa0ba902b7");
    assert!(server.parent_span_is_remote);
    let parents = [decide, redis, client].map(|span| span.parent_span_id);
    let server_id = server.span_context.span_id();
    assert_eq!(parents, [server_id, decide.span_context.span_id(), server_id]);
    let kinds = [server, decide, redis, client].map(|span| span.span_kind.clone());
    let expected = [SpanKind::Server, SpanKind::Internal, SpanKind::Client, SpanKind::Client];
    assert_eq!(kinds, expected);
    for (span, key, value) in [
        (server, "http.route", "/orders/{id}"),
        (server, "url.path", "/orders/{id}"),
        (server, "http.response.status_code", "200"),
        (server, "client.address", "203.0.113.0/24"),
        (server, "tollgate.route", "orders"),
        (server, "tollgate.request_id", "id-1"),
        (decide, "tollgate.policy", "per-client"),
        (decide, "tollgate.remaining", "7"),
        (decide, "tollgate.source", "store"),
        (redis, "db.system.name", "redis"),
        (client, "server.address", "127.0.0.1"),
        (client, "server.port", "9001"),
        (server, "http.request.method", "GET"),
        (decide, "tollgate.outcome", "admitted"),
        (client, "http.request.resend_count", "1"),
    ] {
        assert_eq!(attribute(span, key).as_deref(), Some(value), "{key}");
    }
    assert!(server.end_time >= client.end_time && client.start_time >= server.start_time);
}

/// Series that a collector makes of spans must not grow with the methods that clients invent.
#[tokio::test(start_paused = true)]
async fn an_invented_method_is_in_no_name() {
    let (tracer, mut batches) = batches(0);
    let mut invented = record(&tracer, 200);
    invented.method = "BREW'".repeat(100).parse().expect("a method");
    tracer.write(&invented);
    let spans = batches.next().await.expect("a batch");
    assert_eq!((&*spans[0].name, &*spans[3].name), ("HTTP /orders/{id}", "HTTP"));
    for span in [&spans[0], &spans[3]] {
        assert_eq!(attribute(span, "http.request.method").as_deref(), Some("_OTHER"));
        let original = attribute(span, "http.request.method_original").expect("the method");
        assert_eq!(original.len(), 64, "{original}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_has_the_type_that_the_metrics_show() {
    let (tracer, mut batches) = batches(0);
    let fault = record(&tracer, 500);
    let mut failed = record(&tracer, 502);
    failed.failed("upstream_unreachable");
    let mut broken = record(&tracer, 200);
    broken.failed("upstream_broke_off");
    broken.is_broken = true;
    let mut left = record(&tracer, 200);
    left.left();
    for (record, error) in [
        (fault, "500"),
        (failed, "upstream_unreachable"),
        (broken, "upstream_broke_off"),
        (left, "client_closed"),
    ] {
        tracer.write(&record);
        let spans = batches.next().await.expect("a batch");
        assert_eq!(attribute(&spans[0], "error.type").as_deref(), Some(error));
        assert_eq!(spans[0].status, Status::error(""));
        let decided = attribute(&spans[1], "tollgate.outcome");
        assert_eq!(decided.as_deref(), Some("admitted"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_has_no_port() {
    let (tracer, mut batches) = batches(0);
    for (endpoint, address, port) in [
        ("api.test:8443", "api.test", Some("8443")),
        ("[2001:db8::1]:80", "2001:db8::1", Some("80")),
        ("/run/app.sock", "/run/app.sock", None),
    ] {
        let record = record(&tracer, 200);
        record.attempts.add("app", endpoint);
        tracer.write(&record);
        let spans = batches.next().await.expect("a batch");
        assert_eq!(attribute(&spans[3], "server.address").as_deref(), Some(address));
        assert_eq!(attribute(&spans[3], "server.port").as_deref(), port);
    }
}

#[tokio::test(start_paused = true)]
async fn the_upstream_is_told_the_trace_and_the_span_of_its_request() {
    let (tracer, mut batches) = batches(0);
    let mut headers = HeaderMap::new();
    headers.insert("traceparent", HeaderValue::from_static(RECEIVED));
    let trace = tracer.begin(&mut headers, || true);
    let mut record = record(&tracer, 200);
    record.trace = Some(trace);
    record.forwarded();
    tracer.write(&record);
    let spans = batches.next().await.expect("a batch");
    let client = spans.last().expect("the span of the upstream");
    let told = headers["traceparent"].to_str().expect("text");
    let span = client.span_context.span_id();
    assert_eq!(told, format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{span}-01"));
}

#[test]
fn only_trusted_senders_decide_what_is_sampled() {
    for (sample, is_trusted, flag, is_sampled) in [
        (0, true, "01", true),
        (0, false, "01", false),
        (1_000_000, true, "00", false),
        (1_000_000, false, "00", true),
    ] {
        let (tracer, _records) = Tracer::new(sample);
        let mut headers = HeaderMap::new();
        let received = format!("{}{flag}", &RECEIVED[..RECEIVED.len() - 2]);
        headers.insert("traceparent", HeaderValue::from_str(&received).expect("a value"));
        headers.insert("tracestate", HeaderValue::from_static("vendor=1"));
        let trace = tracer.begin(&mut headers, || is_trusted);
        assert_eq!(trace.is_sampled, is_sampled, "{sample} {is_trusted} {flag}");
        let told = headers["traceparent"].to_str().expect("text");
        assert_eq!(told.ends_with("-01"), is_sampled);
        assert_eq!(&told[..35], &RECEIVED[..35], "the trace goes on");
        assert_eq!(headers["tracestate"], "vendor=1");
    }
}

#[test]
fn a_trace_that_cannot_be_read_is_replaced() {
    let (tracer, _records) = Tracer::new(0);
    let mut headers = HeaderMap::new();
    headers.append("traceparent", HeaderValue::from_static(RECEIVED));
    headers.append("traceparent", HeaderValue::from_static(RECEIVED));
    headers.insert("tracestate", HeaderValue::from_static("vendor=1"));
    tracer.begin(&mut headers, || true);
    assert_eq!(headers.get_all("traceparent").iter().count(), 1);
    assert_ne!(&headers["traceparent"].as_bytes()[..35], &RECEIVED.as_bytes()[..35]);
    assert!(!headers.contains_key("tracestate"));
}

#[tokio::test(start_paused = true)]
async fn batches_are_bounded_and_end_with_the_workers() {
    let (tracer, batches) = batches(0);
    let sizes = RefCell::new(Vec::new());
    for _ in 0..200 {
        tracer.write(&record(&tracer, 200));
    }
    let counts = Arc::clone(tracer.counts());
    drop(tracer);
    let export = |batch: Vec<SpanData>| {
        sizes.borrow_mut().push(batch.len());
        ready(Ok(()))
    };
    batches.send(&counts, "http://collector", export).await;
    assert_eq!(*sizes.borrow(), [512, 288]);
    assert_eq!(counts.exported.load(Ordering::Relaxed), 800);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_collector_holds_a_bounded_number_of_spans() {
    let (tracer, batches) = batches(0);
    let counts = Arc::clone(tracer.counts());
    let stuck = batches.send(&counts, "http://collector", |_| pending());
    tokio::pin!(stuck);
    for _ in 0..1000 {
        tracer.write(&record(&tracer, 200));
        assert!(futures_util::poll!(stuck.as_mut()).is_pending());
    }
    // 128 requests are in the batch on its way, and 512 wait.
    assert_eq!(counts.dropped.load(Ordering::Relaxed), 4 * (1000 - 128 - 512));
}

#[tokio::test(start_paused = true)]
async fn spans_that_the_collector_refuses_are_counted() {
    let (tracer, batches) = batches(0);
    let counts = Arc::clone(tracer.counts());
    tracer.write(&record(&tracer, 200));
    drop(tracer);
    let refuse = |_| ready(Err(OTelSdkError::InternalFailure("away".to_owned())));
    batches.send(&counts, "http://collector", refuse).await;
    assert_eq!(counts.failed.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn failures_are_errors_of_the_spans_in_which_they_happen() {
    for (status, from_upstream, is_error) in [
        (200, true, [false, false]),
        (404, true, [false, true]),
        (500, true, [true, true]),
        (502, false, [true, true]),
    ] {
        let (tracer, mut batches) = batches(0);
        let mut record = record(&tracer, status);
        record.upstream_us = record.upstream_us.filter(|_| from_upstream);
        tracer.write(&record);
        let spans = batches.next().await.expect("a batch");
        let found = [&spans[0], &spans[3]].map(|span| span.status != Status::Unset);
        assert_eq!(found, is_error, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_has_no_span_of_an_upstream() {
    let (tracer, mut batches) = batches(0);
    let mut record = record(&tracer, 429);
    record.trace.as_mut().expect("a trace").forwarded_us = None;
    record.wait = Some(Span::from_secs(2));
    record.store_us = None;
    tracer.write(&record);
    let spans = batches.next().await.expect("a batch");
    assert_eq!(spans.len(), 2);
    assert_eq!(attribute(&spans[1], "tollgate.wait_ms").as_deref(), Some("2000"));
}

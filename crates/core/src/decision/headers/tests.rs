//! Each field as responses contain it.

use proptest::prelude::*;

use super::*;
use crate::algorithm::testing::cases;
use crate::algorithm::{Retry, Verdict};
use crate::decision::tests::{policy, shared};
use crate::decision::{Lacking, Lease, Report, Reports, Ruling};
use crate::meter::{MeterSpec, Tariff, UsageApi};
use crate::policy::{Cost, Mode, Policy};
use crate::price::{Denomination, Prices};
use crate::time::Span;

fn report(
    policy: &Arc<Policy>,
    remaining: u64,
    retry: Retry,
    reset_ms: u64,
) -> Report<&Arc<Policy>> {
    let verdict = Verdict {
        admitted: retry == Retry::Now,
        limit: policy.algorithm.limit(),
        remaining,
        retry,
        reset_after: Span::from_millis(reset_ms),
        delay: Span::ZERO,
    };
    crate::decision::tests::report(policy, verdict, 1)
}

fn decision<'r>(reports: &[Report<&'r Arc<Policy>>]) -> Decision<&'r Arc<Policy>> {
    let reports = reports.iter().copied().collect::<Reports<&Arc<Policy>>>();
    Decision::combine(reports, Lacking::new(), Lease::default())
}

fn after(ms: u64) -> Retry {
    Retry::After(Span::from_millis(ms))
}

/// The fields of a response that had the fields `sent`, one a line, in alphabetical order.
///
/// # Panics
/// If a response in HTTP/1.1 would get other fields.
fn written(reports: &[Report<&Arc<Policy>>], sent: &[(&'static str, &'static str)]) -> Vec<String> {
    let mut fields = HeaderMap::new();
    for (name, value) in sent {
        fields.append(*name, HeaderValue::from_static(value));
    }
    let settings = HeaderSettings { expose_cors: false, ..HeaderSettings::default() };
    let limits = HeaderWriter::new(&settings).fields(&decision(reports), true);
    if !fields.keys().any(LimitFields::may_have) {
        assert_same(&limits);
    }
    limits.write(&mut fields);
    let mut lines: Vec<_> =
        fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
    lines
}

/// Checks that the lines of a head contain the fields of a message, in the same order.
fn assert_same(limits: &LimitFields) {
    let mut head = Vec::new();
    let mut fields = HeaderMap::new();
    limits.write_lines(&mut head);
    limits.clone().write(&mut fields);
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}\r\n", value.to_str().expect("ASCII"))
    };
    // Lines with one name stand together in a map, and their order is that of the lines.
    let sorted = |mut lines: Vec<String>| {
        lines.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
        lines
    };
    let head = String::from_utf8(head).expect("ASCII");
    let lines = head.split_inclusive('\n').map(ToOwned::to_owned).collect();
    assert_eq!(sorted(lines), sorted(fields.iter().map(line).collect()));
}

#[test]
fn an_admitted_response_names_the_remaining_units() {
    let minute = shared("per-client", 100, Span::from_secs(60));
    let day = shared("daily", 10_000, Span::DAY);
    let reports = [report(&minute, 50, Retry::Now, 29_001), report(&day, 0, Retry::Now, 3_600_000)];
    assert_eq!(
        written(&reports, &[]),
        [
            "ratelimit: \"per-client\";r=50;t=30, \"daily\";r=0;t=3600",
            "ratelimit-policy: \"per-client\";q=100;w=60, \"daily\";q=10000;w=86400",
            "x-ratelimit-limit: 10000",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 3600",
        ]
    );
}

/// HTTP/2 enters the other fields into its table, because the next response has them again.
#[test]
fn values_that_vary_are_not_entered_into_the_table_of_http_2() {
    let minute = shared("per-client", 100, Span::from_secs(60));
    let mut fields = HeaderMap::new();
    let decision = decision(&[report(&minute, 50, Retry::Now, 29_001)]);
    HeaderWriter::new(&HeaderSettings::default()).write(&decision, false, &mut fields);
    let names = |is_sensitive| -> Vec<&str> {
        let of = fields.iter().filter(|(_, value)| value.is_sensitive() == is_sensitive);
        let mut names: Vec<_> = of.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(true), ["ratelimit", "x-ratelimit-remaining"]);
    assert_eq!(names(false), ["ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-reset"]);
}

#[test]
fn a_refusal_names_the_time_to_retry() {
    let minute = shared("per-client", 100, Span::from_secs(60));
    let other = shared("other", 100, Span::from_secs(60));
    let reports = [report(&minute, 0, after(1), 60_000), report(&other, 7, Retry::Now, 60_000)];
    assert_eq!(
        written(&reports, &[]),
        [
            "ratelimit: \"per-client\";r=0;t=1, \"other\";r=7;t=60",
            "ratelimit-policy: \"per-client\";q=100;w=60, \"other\";q=100;w=60",
            "retry-after: 1",
            "x-ratelimit-limit: 100",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 60",
            "x-ratelimit-retry-after: 1",
        ]
    );
}

#[test]
fn a_wait_is_rounded_up_and_equal_in_both_fields() {
    let minute = shared("p", 100, Span::from_secs(60));
    let lines = written(&[report(&minute, 3, after(12_000), 60_000)], &[]);
    assert!(lines.contains(&"retry-after: 12".into()), "{lines:?}");
    let lines = written(&[report(&minute, 3, after(12_001), 60_000)], &[]);
    assert!(lines.contains(&"retry-after: 13".into()), "{lines:?}");
    assert!(lines.contains(&"x-ratelimit-retry-after: 13".into()), "{lines:?}");
    let lines_at_once = written(&[report(&minute, 0, after(0), 60_000)], &[]);
    assert!(lines_at_once.contains(&"retry-after: 1".into()), "{lines_at_once:?}");
    // Units remain, so the draft's effective window is not the wait.
    assert!(lines.contains(&"ratelimit: \"p\";r=3;t=60".into()), "{lines:?}");
}

#[test]
fn a_request_that_can_never_be_admitted_gets_no_retry_after() {
    let minute = shared("p", 100, Span::from_secs(60));
    let lines = written(&[report(&minute, 100, Retry::Never, 0)], &[]);
    assert!(!lines.iter().any(|line| line.contains("retry-after")), "{lines:?}");
}

#[test]
fn windows_are_written_in_whole_seconds_or_omitted() {
    let cases = [(1000, ";w=1"), (1500, ";w=2"), (999, "")];
    for (window_ms, expected) in cases {
        let policy = shared("p", 5, Span::from_millis(window_ms));
        let lines = written(&[report(&policy, 5, Retry::Now, 0)], &[]);
        assert_eq!(lines[1], format!("ratelimit-policy: \"p\";q=5{expected}"));
    }
}

#[test]
fn the_quota_names_what_its_units_are_if_these_are_not_requests() {
    let requests = shared("p", 5, Span::SECOND);
    let of_pointer = |pointer: &str| {
        let meter = MeterSpec::Json(pointer.parse().unwrap());
        let cost = Cost::Metered { reserve: 1, meter, estimate: None };
        Arc::new(Policy { cost, ..policy("p", 5, Span::SECOND) })
    };
    let money = Denomination { currency: "usd".parse().unwrap(), digits: 6 };
    let prices = Prices { denomination: money, table: Arc::default(), unknown: None };
    let meter = MeterSpec::Usage { api: UsageApi::OpenAi, tariff: Tariff::Prices(prices.into()) };
    let cost = Cost::Metered { reserve: 1, meter, estimate: None };
    let priced = Arc::new(Policy { cost, ..policy("p", 5, Span::SECOND) });
    // The name, the limit and the window are the same.
    for (policy, unit) in [
        (&requests, ""),
        (&of_pointer("/tokens"), ";qu=\"tokens\""),
        (&priced, ";qu=\"usd-6\""),
        (&requests, ""),
    ] {
        let lines = written(&[report(policy, 5, Retry::Now, 0)], &[]);
        assert_eq!(lines[1], format!("ratelimit-policy: \"p\";q=5{unit};w=1"));
    }
}

#[test]
fn without_a_report_no_field_is_written() {
    assert_eq!(written(&[], &[]), [""; 0]);
}

#[test]
fn stricter_fields_of_the_backend_stay() {
    let minute = shared("p", 100, Span::from_secs(60));
    let reports = [report(&minute, 50, Retry::Now, 30_000)];
    let sent = |remaining| {
        [
            ("x-ratelimit-limit", "60"),
            ("x-ratelimit-remaining", remaining),
            ("ratelimit", "\"b\";r=1"),
        ]
    };
    let remaining = |remaining| {
        let lines = written(&reports, &sent(remaining));
        assert_eq!(lines[..2], ["ratelimit: \"b\";r=1", "ratelimit: \"p\";r=50;t=30"]);
        lines[3..5].join(", ")
    };
    let theirs = "x-ratelimit-limit: 60, x-ratelimit-remaining: 49";
    let ours = "x-ratelimit-limit: 100, x-ratelimit-remaining: 50";
    assert_eq!(remaining("49"), theirs);
    assert_eq!(remaining("50"), ours);
    assert_eq!(remaining("51"), ours);
    assert_eq!(remaining("-1"), ours);
    // Regression: of a list, or of several lines, only one was read.
    assert_eq!(remaining("99, 49"), "x-ratelimit-limit: 60, x-ratelimit-remaining: 99, 49");
    let mut lines = sent("99").to_vec();
    lines.push(("x-ratelimit-remaining", "0"));
    let lines = written(&reports, &lines);
    assert!(lines.contains(&"x-ratelimit-remaining: 0".to_owned()), "{lines:?}");
}

#[test]
fn the_names_of_the_fields_are_known() {
    let names = [LIMIT, REMAINING, RESET, X_RETRY_AFTER, RATELIMIT_POLICY, RATELIMIT, RETRY_AFTER];
    for name in names.into_iter().chain([X_RATELIMIT_SOFT, X_RATELIMIT_SOURCE]) {
        assert!(LimitFields::may_have(&name), "{name}");
    }
    let other = ["etag", "x-rate", "rate", "x-request-id", "retry"].map(HeaderName::from_static);
    assert!(!other.iter().any(LimitFields::may_have));
}

#[test]
fn scripts_of_other_origins_may_read_the_fields() {
    let minute = shared("p", 100, Span::from_secs(60));
    let within = report(&minute, 50, Retry::Now, 30_000);
    let exposed = |report, expose_cors, cross_origin| {
        let dialects = vec![Dialect::Ietf, Dialect::RetryAfter];
        let writer = HeaderWriter::new(&HeaderSettings { dialects, expose_cors });
        let mut fields = HeaderMap::new();
        fields.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("ETag"));
        assert_same(&writer.fields(&decision(&[report]), cross_origin));
        writer.write(&decision(&[report]), cross_origin, &mut fields);
        let lines = fields.get_all(ACCESS_CONTROL_EXPOSE_HEADERS).iter();
        lines.map(|line| line.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ours = ["ETag", "RateLimit-Policy, RateLimit, Retry-After", "x-ratelimit-soft"];
    assert_eq!(exposed(within, true, true), ours[..2]);
    let soft = Report { ruling: Ruling::Soft, ..within };
    assert_eq!(exposed(soft, true, true), ours);
    assert_eq!(exposed(soft, true, false), ["ETag"]);
    assert_eq!(exposed(soft, false, true), ["ETag"]);
}

#[test]
fn a_request_beyond_its_limit_is_marked_if_it_is_admitted() {
    let [one, other] = ["a", "b"].map(|name| shared(name, 100, Span::from_secs(60)));
    let soft = Report { ruling: Ruling::Soft, ..report(&one, 0, Retry::Now, 0) };
    let is_marked =
        |other| written(&[soft, other], &[]).contains(&"x-ratelimit-soft: over".to_owned());
    assert!(is_marked(report(&other, 7, Retry::Now, 0)));
    assert!(!is_marked(report(&other, 0, after(1000), 0)));
    assert!(!written(&[report(&one, 0, Retry::Now, 0)], &[]).iter().any(|it| it.contains("soft")));
}

#[test]
fn policies_in_shadow_are_not_reported_to_clients() {
    let minute = shared("p", 100, Span::from_secs(60));
    let shadow = Arc::new(Policy { mode: Mode::Shadow, ..policy("s", 5, Span::from_secs(60)) });
    let told = report(&minute, 50, Retry::Now, 30_000);
    let refused = report(&shadow, 0, after(1000), 30_000);
    assert_eq!(written(&[refused, told], &[]), written(&[told], &[]));
    assert_eq!(written(&[refused], &[]), [""; 0]);
}

#[test]
fn only_the_configured_dialects_are_written() {
    let minute = shared("p", 100, Span::from_secs(60));
    let decision = decision(&[report(&minute, 0, after(500), 500)]);
    let names = |dialect| {
        let settings = HeaderSettings { dialects: vec![dialect], expose_cors: false };
        let mut fields = HeaderMap::new();
        HeaderWriter::new(&settings).write(&decision, false, &mut fields);
        fields.keys().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(Dialect::RetryAfter), "retry-after");
    assert_eq!(names(Dialect::Ietf), "ratelimit-policy ratelimit");
    assert!(names(Dialect::XRatelimit).split(' ').all(|name| name.starts_with("x-ratelimit-")));
}

proptest! {
    #![proptest_config(cases())]

    /// An independent parser of RFC 9651 reads the same values from the fields.
    #[test]
    fn an_independent_parser_reads_what_is_meant(
        name in "[ -~]{1,20}",
        limit in 1_u64..1 << 39,
        remaining in any::<u32>().prop_map(u64::from),
        window_s in 1_u64..86_400,
        wait_ms in prop::option::of(1_u64..100_000_000),
    ) {
        let first = shared(&name, limit, Span::from_secs(window_s));
        let second = shared("second", 5, Span::DAY);
        let retry = wait_ms.map_or(Retry::Now, after);
        let reports =
            [report(&first, remaining, retry, 1500), report(&second, 3, Retry::Now, 60_000)];
        let lines = written(&reports, &[]);
        let field = |wanted: &str| {
            let value = lines.iter().find_map(|line| line.strip_prefix(wanted)).unwrap();
            sfv::Parser::new(value).parse::<sfv::List>().unwrap()
        };
        let item = |list: &sfv::List, index: usize| match &list[index] {
            sfv::ListEntry::Item(item) => item.clone(),
            other => panic!("not an item: {other:?}"),
        };
        let number = |item: &sfv::Item, name: &str| {
            let value = item.params.get(name).and_then(|value| value.as_integer()).unwrap();
            u64::try_from(i64::from(value)).unwrap()
        };
        let policies = field("ratelimit-policy: ");
        let limits = field("ratelimit: ");
        prop_assert_eq!((policies.len(), limits.len()), (2, 2));
        let policy = item(&policies, 0);
        let limit_item = item(&limits, 0);
        for item in [&policy, &limit_item] {
            prop_assert_eq!(item.bare_item.as_string().unwrap().as_str(), &*name);
        }
        prop_assert_eq!((number(&policy, "q"), number(&policy, "w")), (limit, window_s));
        prop_assert_eq!(number(&limit_item, "r"), remaining);
        let waits = wait_ms.filter(|_| remaining == 0).map(|ms| ms.div_ceil(1000));
        prop_assert_eq!(number(&limit_item, "t"), waits.unwrap_or(2));
    }
}

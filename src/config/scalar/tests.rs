//! Tables and properties of the values that are written as one text.

use std::cell::RefCell;
use std::collections::HashMap;
use std::str::FromStr;

use proptest::prelude::*;
use regex::Regex;
use tollgate_core::algorithm::{MAX_LIMIT, MONTH, Quota};
use tollgate_core::policy::KEY_FORMS;
use tollgate_core::policy::spec::LimitSpec;
use tollgate_core::time::Span;

use super::*;
use crate::proxy::Target;
use crate::server;

fn rate(limit: u64, window: Span) -> Rate {
    Rate(Quota::new(limit, window).expect("the tests use good quotas"))
}

#[test]
fn a_rate_is_a_count_and_a_time() {
    let minute = Span::from_secs(60);
    let cases = [
        ("100/minute", rate(100, minute)),
        ("100/m", rate(100, minute)),
        ("100 / 1m", rate(100, minute)),
        ("5/s", rate(5, Span::SECOND)),
        ("1000/hour", rate(1000, Span::from_secs(3600))),
        ("20000/day", rate(20_000, Span::DAY)),
        ("100/30s", rate(100, Span::from_secs(30))),
        ("1_000/15m", rate(1000, Span::from_secs(900))),
        ("1k/s", rate(1000, Span::SECOND)),
        ("2M/week", rate(2_000_000, Span::from_secs(7 * 86_400))),
        ("5/month", rate(5, MONTH)),
        ("1k / months", rate(1000, MONTH)),
        ("3/1m30s", rate(3, Span::from_secs(90))),
        ("1/ms", rate(1, Span::MILLISECOND)),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
}

#[test]
fn a_mistake_in_a_rate_says_what_would_be_right_in_one_line() {
    let error = "100".parse::<Rate>().unwrap_err().to_string();
    let expected = "the rate \"100\" has no time; \
                    write a count per time, like 100/minute, 5/s or 1_000/15m";
    assert_eq!(error, expected);
}

#[test]
fn a_limit_is_a_rate_or_a_bare_count() {
    let Rate(quota) = rate(100, Span::SECOND);
    let cases = [
        ("100/s", LimitSpec::Rate(quota)),
        ("20", LimitSpec::Count(20)),
        (" 1_000 ", LimitSpec::Count(1000)),
        ("2k", LimitSpec::Count(2000)),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse(), Ok(Limit(expected)), "{text}");
        assert_eq!(text.parse(), Ok(Allowance(Some(expected))), "{text}");
    }
    assert_eq!("unlimited".parse(), Ok(Allowance(None)));
    for text in ["", "/s", "1.5", "100 per minute", "-1", "unlimited/s"] {
        assert!(text.parse::<Limit>().is_err(), "{text}");
        assert!(text.parse::<Allowance>().is_err(), "{text}");
    }
}

#[test]
fn a_percentage_is_whole_and_at_most_a_hundred() {
    for (text, percent) in [("0%", 0), ("10%", 10), ("10 %", 10), ("100%", 100)] {
        assert_eq!(text.parse(), Ok(Percent(percent)), "{text}");
    }
    for text in ["", "%", "10", "101%", "1.5%", "-1%", "10%%", "356%", "18446744073709551616%"] {
        assert!(text.parse::<Percent>().is_err(), "{text}");
    }
}

#[test]
fn a_size_is_in_bytes_unless_it_has_a_unit() {
    let cases =
        [("64KiB", 65_536), ("10MB", 10_000_000), ("1_000_000", 1_000_000), ("1GiB", 1 << 30)];
    for (text, bytes) in cases {
        assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
    }
    for text in ["", "KB", "1.5MB", "10 parsecs", "18446744073709551616", "99999999999GiB"] {
        assert!(text.parse::<Size>().is_err(), "{text}");
    }
}

#[test]
fn an_address_without_host_is_every_ipv4_address() {
    let cases =
        [(":8080", "0.0.0.0:8080"), ("127.0.0.1:0", "127.0.0.1:0"), ("[::]:8443", "[::]:8443")];
    for (text, address) in cases {
        let address = server::ListenAddress::Tcp(address.parse().unwrap());
        assert_eq!(text.parse(), Ok(ListenAddress(address)), "{text}");
    }
    let socket = server::ListenAddress::Unix("/run/t.sock".into());
    assert_eq!("unix:/run/t.sock".parse(), Ok(ListenAddress(socket)));
    let long = format!("unix:/{}", "x".repeat(96));
    for text in
        ["", ":", ":+80", "8080", "[::1]", "::1:80 ", "localhost:80", "unix:", "unix:t.sock", &long]
    {
        assert!(text.parse::<ListenAddress>().is_err(), "{text}");
    }
}

#[test]
fn the_port_of_an_endpoint_is_always_written() {
    let cases = [
        ("http://app", "app:80"),
        ("http://app/", "app:80"),
        ("http://app.example:9000", "app.example:9000"),
        ("http://[::1]", "[::1]:80"),
        ("http://[::1]:9000", "[::1]:9000"),
    ];
    for (text, authority) in cases {
        let expected = Endpoint(Target::Http(authority.parse().unwrap()));
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
    for text in ["http://[::1", "http://a:", "http://:80", "http://a b", "http://a:70000"] {
        assert!(text.parse::<Endpoint>().is_err(), "{text}");
    }
}

#[test]
fn one_address_is_a_block_of_its_own() {
    assert_eq!("10.0.0.1".parse(), Ok(Cidr("10.0.0.1/32".parse().unwrap())));
    assert_eq!("::1".parse(), Ok(Cidr("::1/128".parse().unwrap())));
}

/// Reads `text` as each of the types. The test fails only if this panics.
fn read_as_everything(text: &str) {
    fn read<T: FromStr<Err = ScalarError>>(text: &str) {
        if let Err(error) = text.parse::<T>() {
            assert!(!error.to_string().is_empty());
        }
    }
    read::<Rate>(text);
    read::<Period>(text);
    read::<Size>(text);
    read::<ListenAddress>(text);
    read::<Cidr>(text);
    read::<Endpoint>(text);
    read::<KeyWord>(text);
    read::<PathText>(text);
    read::<HostText>(text);
    read::<MethodName>(text);
    read::<FieldName>(text);
    read::<FieldValue>(text);
    read::<Level>(text);
    read::<OutputPath>(text);
    read::<Workers>(text);
}

proptest! {
    #[test]
    fn a_duration_is_read_as_it_is_written(ms in 1..3_000_000_000_u64) {
        let span = Span::from_millis(ms);
        prop_assert_eq!(span.to_string().parse(), Ok(Period(span.into())));
    }

    #[test]
    fn a_rate_of_any_quota_is_read_as_it_is_written(
        limit in 1..=MAX_LIMIT,
        ms in 1..366 * 86_400_000_u64,
    ) {
        let window = Span::from_millis(ms);
        prop_assert_eq!(format!("{limit}/{window}").parse(), Ok(rate(limit, window)));
    }

    #[test]
    fn every_text_is_read_or_refused_with_a_reason(text in ".{0,40}") {
        read_as_everything(&text);
    }

    #[test]
    fn so_is_every_text_of_digits_units_and_signs(text in "[0-9a-z_:/.\\[\\]{}*?%+-]{0,24}") {
        read_as_everything(&text);
    }
}

/// Parts of texts of all forms, right and wrong ones.
const PARTS: &[&str] = &[
    "1",
    "20",
    "007",
    "1_000",
    "_",
    "k",
    "M",
    "/",
    " ",
    "ms",
    "s",
    "minute",
    "h",
    "weeks",
    "month",
    "%",
    ".",
    "+",
    "-",
    "GET",
    "get",
    "x-a",
    "/a",
    "{id}",
    "*",
    "DE",
    "-BE",
    "AS64500",
    "off",
    "info",
    "connect",
    "503",
    "unlimited",
    "auto",
    "KiB",
    "kB",
    "B",
    "2027-01-31",
    "ip",
    "header:",
    "tls:subject",
    "http://h",
    ":80",
    "unix:/a",
    "h2c://h",
    "builtin:echo",
    "\u{e9}",
    "\u{a0}",
    "\n",
];

/// The expression, which is compiled once: that takes longer than a thousand matches.
fn compiled(pattern: &str) -> Regex {
    thread_local! {
        static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
    }
    let new = || Regex::new(pattern).expect("a regular expression");
    COMPILED.with_borrow_mut(|known| known.entry(pattern.to_owned()).or_insert_with(new).clone())
}

/// Asserts that the pattern of the schema matches each text that the program accepts.
fn assert_matched<T: FromStr + schemars::JsonSchema>(text: &str) {
    let schema = T::json_schema(&mut schemars::SchemaGenerator::default());
    let pattern = schema.get("pattern").and_then(|it| it.as_str()).expect("it has a pattern");
    let matches = compiled(pattern).is_match(text);
    assert!(matches || text.parse::<T>().is_err(), "{} does not match {text:?}", T::schema_name());
}

fn assert_matched_by_all(text: &str) {
    assert_matched::<Rate>(text);
    assert_matched::<Period>(text);
    assert_matched::<Size>(text);
    assert_matched::<Limit>(text);
    assert_matched::<Allowance>(text);
    assert_matched::<Percent>(text);
    assert_matched::<Share>(text);
    assert_matched::<Date>(text);
    assert_matched::<MethodName>(text);
    assert_matched::<FieldName>(text);
    assert_matched::<KeyWord>(text);
    assert_matched::<PathText>(text);
    assert_matched::<PlaceCode>(text);
    assert_matched::<PointerText>(text);
    assert_matched::<PrefixText>(text);
    assert_matched::<Endpoint>(text);
    assert_matched::<RetryOn>(text);
    assert_matched::<Level>(text);
    assert_matched::<Workers>(text);
    assert_matched::<TargetText>(text);
}

#[test]
fn patterns_find_mistakes_and_pass_references() {
    let matches =
        |form: &str, text: &str| Regex::new(&form::pattern(form)).expect("good").is_match(text);
    for (form, wrong) in [
        (form::RATE, "100/minut"),
        (form::RATE, "100"),
        (form::RATE, "1.5/s"),
        (form::PERIOD, "30"),
        (form::PERIOD, "5 s"),
        (form::SIZE, "10 mb"),
        (form::PERCENT, "10"),
        (form::METHOD, "get"),
        (&form::key(), "headr:x"),
        (&form::key(), "ipaddress"),
        (form::PATH, "v1/orders"),
        (form::ENDPOINT, "127.0.0.1:9000"),
        (form::LEVEL, "warning"),
        (form::RETRY, "500"),
        (form::PLACE, "Germany"),
        (form::DATE, "31.1.2027"),
    ] {
        assert!(!matches(form, wrong), "{form} matches {wrong}");
        assert!(matches(form, "${VALUE}") && matches(form, "${A:-5}/s"), "{form}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_text_that_is_accepted_matches_its_pattern(
        parts in prop::collection::vec(prop::sample::select(PARTS), 1..5),
    ) {
        assert_matched_by_all(&parts.concat());
    }
}

#[test]
fn each_form_of_a_key_matches_the_pattern_of_keys() {
    for form in KEY_FORMS {
        let text = form.replace("POINTER", "/model");
        assert!(text.parse::<KeyWord>().is_ok(), "{text}");
        assert_matched::<KeyWord>(&text);
    }
}

#[test]
fn each_form_of_a_key_is_in_the_documentation() {
    for page in ["guide", "keys"] {
        let path = format!("{}/docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("the page exists");
        for form in KEY_FORMS {
            assert!(text.contains(&format!("`{form}`")), "{path} lacks `{form}`");
        }
    }
}

#[test]
fn blanks_in_an_amount_may_be_of_any_kind() {
    assert!("1 \u{a0}usd/day".parse::<Allowance>().is_ok());
    assert_matched_by_all("1 \u{a0}usd/day");
}

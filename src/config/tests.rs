//! What the configuration guarantees as a whole; single mistakes have golden
//! files in `tests/config`.

mod admin;
mod check;
mod geo;
mod patches;
mod policies;
mod routes;
mod secrets;
mod store;
mod upstreams;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::decision::Dialect;
use tollgate_core::policy::{ForwardedHeader, KeyExpr, MissingKey, UserSource};
use tollgate_core::routes::PartMatch;
use tollgate_core::time::Span;

use super::*;
use crate::proxy::{Balance, ConnectionSettings, Target};
use crate::snapshot::Action;
use crate::telemetry::{Format, LineFormat, Output};

const SMALLEST: &str = "
listeners:
  - address: 0.0.0.0:8080
upstreams:
  app: { endpoints: [http://127.0.0.1:9000] }
policies:
  per-client: { key: ip, limit: 100/minute }
routes:
  - { path: /*, policies: [per-client], upstream: app }
";

/// Every field that works, each with a value that is not its default.
const LARGEST: &str = include_str!("tests/largest.yaml");

fn parse(text: &str) -> Result<Compiled, Report> {
    Config::parse(text, "gateway.yaml", &|name| {
        (name == "SECRET").then(|| "a secret of more than 32 bytes, as HS256 wants".to_owned())
    })
}

fn compile(text: &str) -> Config {
    parse(text).unwrap_or_else(|report| panic!("{report}")).config
}

#[test]
fn the_smallest_file_has_safe_defaults() {
    let Compiled { config, warnings, .. } = parse(SMALLEST).unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    assert_eq!(config.listeners[0].max_head_bytes, 32 * 1024);
    assert_eq!((config.client.ipv4_prefix, config.client.ipv6_prefix), (32, 64));
    assert!(config.client.trusted_proxies.is_empty());
    assert_eq!(config.store.max_keys, 1_000_000);
    assert_eq!(config.policies[0].missing_key, MissingKey::Ip);
    assert!(matches!(config.policies[0].algorithm, Algorithm::SlidingWindow(_)));
    assert_eq!(&*config.routes[0].rule.name, "1");
    assert_eq!(config.routes[0].handling.timeouts.response, Duration::from_secs(30));
    assert_eq!(config.upstreams[0].balance, Balance::LeastRequests);
    assert!(config.problem_json);
}

#[test]
fn running_without_a_file_equals_the_smallest_file() {
    let Endpoint(to) = "http://127.0.0.1:9000".parse().unwrap();
    let ListenAddress(listen) = ":8080".parse().unwrap();
    let single = Config::single(listen, to, "100/minute".parse().unwrap(), KeyExpr::Ip).unwrap();
    let renamed = SMALLEST.replace("per-client", "limit").replace("app", "upstream");
    // What is not in a file cannot be changed at run time.
    let from_file = Config { definitions: Arc::default(), ..compile(&renamed) };
    assert_eq!(format!("{single:?}"), format!("{from_file:?}"));
}

#[test]
fn listeners_and_clients_are_as_they_were_written() {
    let config = compile(LARGEST);
    let listener = &config.listeners[0];
    assert_eq!(listener.address.to_string(), "[::1]:9443");
    assert_eq!((listener.max_connections, listener.max_headers), (500, 50));
    assert_eq!(listener.max_head_bytes, 64 * 1024);
    assert_eq!(listener.timeouts.request_head, Duration::from_millis(250));
    assert_eq!(listener.timeouts.request_body, Duration::from_secs(90));
    assert_eq!(listener.timeouts.keep_alive, Duration::from_secs(3600));
    let client = &config.client;
    let trusted: Vec<String> = client.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(trusted, ["10.0.0.0/8", "192.0.2.1/32"]);
    assert_eq!(client.forwarded_header, ForwardedHeader::Single("x-real-ip".parse().unwrap()));
    assert_eq!((client.ipv4_prefix, client.ipv6_prefix), (24, 48));
    assert_eq!(client.api_key.headers, ["x-key"]);
    assert_eq!((client.api_key.bearer, client.api_key.query.as_deref()), (false, Some("key")));
    let Some(UserSource::Jwt(jwt)) = &client.user else { panic!("{:?}", client.user) };
    assert_eq!((jwt.keys.can_verify(), jwt.claim.as_str()), (true, "org.id"));
    assert_eq!(jwt.leeway, Span::from_secs(60));
    assert_eq!(
        (&jwt.issuers[..], &jwt.audiences[..]),
        (&["us".into()][..], &["them".into(), "all".into()][..])
    );
}

#[test]
fn routes_are_as_they_were_written() {
    let config = compile(LARGEST);
    let [orders, health, _] = &config.routes[..] else { panic!("three routes") };
    assert_eq!(&*orders.rule.name, "orders");
    assert_eq!(orders.rule.path, "/v1/orders/{id}".parse().unwrap());
    assert_eq!(orders.rule.hosts, ["a.example".parse().unwrap(), "*.b.example".parse().unwrap()]);
    assert_eq!(orders.rule.methods, [http::Method::GET, http::Method::POST]);
    assert_eq!(orders.rule.parts, [PartMatch::header("x-version".parse().unwrap(), b"2")]);
    let names: Vec<&str> = orders.rule.policies.iter().map(|policy| &*policy.name).collect();
    assert_eq!(names, ["nested", "bucket", "fixed", "sub"], "its own, then the defaults");
    assert!(matches!(orders.handling.action, Action::Forward(0)));
    assert_eq!(orders.handling.timeouts.response, Duration::from_secs(5));
    assert_eq!(orders.handling.timeouts.idle, Duration::from_secs(6));
    assert_eq!(orders.handling.max_body_bytes, Some(10_000_000));
    assert!(health.rule.policies.is_empty(), "it wants no defaults");
    let Action::Respond(response) = &health.handling.action else {
        panic!("{:?}", health.handling.action)
    };
    assert_eq!((response.status.as_u16(), &response.body[..]), (201, &b"ok"[..]));
}

#[test]
fn upstreams_and_the_process_are_as_they_were_written() {
    let config = compile(LARGEST);
    let app = &config.upstreams[0];
    assert_eq!(app.endpoints[0].target, Target::Http("127.0.0.1:80".parse().unwrap()));
    assert_eq!(app.endpoints[1].target, Target::Echo);
    assert_eq!((app.endpoints[0].weight, app.endpoints[1].weight), (1, 3));
    assert_eq!(
        (app.balance, app.max_idle, app.max_in_flight),
        (Balance::Random, Some(8), Some(100))
    );
    let queue_timeout = Duration::from_secs(2);
    let connections = ConnectionSettings { max: 20, queue_length: 50, queue_timeout };
    assert_eq!(app.connections, Some(connections));
    assert_eq!(app.connect_timeout, Duration::from_secs(2));
    assert_eq!(app.idle_timeout, Duration::from_secs(30));
    assert_eq!(config.headers.dialects, [Dialect::Ietf]);
    assert!(!config.headers.expose_cors && !config.problem_json);
    assert_eq!(config.telemetry.level, tracing::level_filters::LevelFilter::DEBUG);
    assert_eq!(config.telemetry.format, Some(Format::Json));
    let access_log = config.telemetry.access_log.unwrap();
    assert_eq!(access_log.output, Output::File("access.log".into()));
    assert_eq!(access_log.format, Some(LineFormat::Text));
    assert_eq!(config.runtime.workers, Some(3));
    assert_eq!(config.runtime.drain, Duration::from_secs(5));
}

#[test]
fn the_access_log_can_be_off() {
    let config = compile(&format!("{SMALLEST}telemetry: {{ access_log: false }}\n"));
    assert_eq!(config.telemetry.access_log, None);
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let text = SMALLEST.replace(
        "  per-client: { key: ip, limit: 100/minute }",
        "  base: &base { key: ip, limit: 5/s, missing_key: deny }\n  \
         per-client: { <<: *base, key: api_key }\n  same: *base",
    );
    let config = compile(&text);
    assert_eq!(config.policies[1].key, KeyExpr::ApiKey);
    assert_eq!(config.policies[1].missing_key, MissingKey::Deny);
    assert_eq!(config.policies[2].algorithm, config.policies[0].algorithm);
}

/// Regression: the parser allowed ten aliases for each anchor of a file with more than 99.
#[test]
fn an_anchor_may_be_used_by_every_route() {
    let mut text =
        format!("{SMALLEST}  - {{ path: /, upstream: app, timeouts: &t {{ response: 9s }} }}\n");
    for index in 0..1000 {
        writeln!(text, "  - {{ path: /{index}, upstream: app, timeouts: *t }}").unwrap();
    }
    assert_eq!(compile(&text).routes.len(), 1002);
}

#[test]
fn references_are_replaced_in_any_text() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("limit"), "7/s\n").unwrap();
    let text = SMALLEST
        .replace("100/minute", "\"${file:limit}\"")
        .replace("[http://127.0.0.1:9000]", "[\"http://${HOST:-10.0.0.1}:${PORT:-80}\"]")
        .replace("path: /*", "path: /*, defaults: \"${ON:-true}\", name: \"$${HOST} ${HOST:-}\"");
    let name = directory.path().join("gateway.yaml");
    let env = |variable: &str| (variable == "PORT").then(|| "81".to_owned());
    let error = Config::parse(&text, &name.to_string_lossy(), &env).unwrap_err().to_string();
    assert!(error.contains("a route needs a name without leading or trailing blanks"), "{error}");
    let text = text.replace(" ${HOST:-}", "${HOST:-}");
    let Compiled { config, files, .. } =
        Config::parse(&text, &name.to_string_lossy(), &env).unwrap();
    let paths: Vec<_> = files.into_iter().map(|it| it.path).collect();
    assert_eq!(paths, [directory.path().join("limit")]);
    assert_eq!(
        config.upstreams[0].endpoints[0].target,
        Target::Http("10.0.0.1:81".parse().unwrap())
    );
    assert_eq!(&*config.routes[0].rule.name, "${HOST}");
}

/// Regression: the token of the admin API was the text `${OTHER}`, which anyone can read in the file.
#[test]
fn a_default_contains_no_reference() {
    let token = "0123456789abcdef0123456789abcdef";
    let env = |variable: &str| (variable != "UNSET").then(|| token.to_owned());
    for name in ["UNSET", "SET"] {
        let text = format!("{SMALLEST}admin: {{ token: \"${{{name}:-${{OTHER}}}}\" }}\n");
        let report = Config::parse(&text, "gateway.yaml", &env).unwrap_err().to_string();
        let said = format!("the default of \"${{{name}:-...}}\" contains another reference");
        assert!(report.contains(&said), "{report}");
        assert!(!report.contains(token), "{report}");
    }
}

#[test]
fn an_empty_variable_counts_as_missing_only_if_there_is_a_default() {
    let env = |variable: &str| (variable == "EMPTY").then(String::new);
    let with = |text: &str| {
        let text = SMALLEST.replace("100/minute", text);
        Config::parse(&text, "gateway.yaml", &env).map_err(|report| report.to_string())
    };
    assert!(with("\"${EMPTY:-5/s}\"").is_ok());
    assert!(with("\"${EMPTY}5/s\"").is_ok());
}

/// `${file:...}` dropped it, and `${NAME}` did not: a token from a mounted secret was never equal.
#[test]
fn a_newline_at_the_end_of_a_variable_is_left_out_with_a_warning() {
    let with = |value: &'static str, text: &str| {
        let env = move |variable: &str| (variable == "LIMIT").then(|| value.to_owned());
        let parsed = Config::parse(&SMALLEST.replace("100/minute", text), "gateway.yaml", &env);
        parsed.map(|compiled| compiled.warnings.to_string()).map_err(|report| report.to_string())
    };
    let said = "the environment variable LIMIT ends with a newline, which is left out of the value";
    for value in ["5/s\n", "5/s\r\n", "5/s\n\n"] {
        let warnings = with(value, "\"${LIMIT}\"").unwrap();
        assert_eq!(warnings.matches(said).count(), 1, "{warnings}");
        assert!(!warnings.contains("5/s"), "{warnings}");
    }
    assert_eq!(with("5/s", "\"${LIMIT}\"").unwrap(), "");
    // What is left is empty, so the default is used.
    assert!(with("\n", "\"${LIMIT:-5/s}\"").unwrap().contains(said));
    // The last newline of several lines is usual.
    let report = with("5/s\nor so\n", "\"${LIMIT}\"").unwrap_err();
    assert!(!report.contains("ends with a newline"), "{report}");
}

#[test]
fn all_of_five_mistakes_are_reported() {
    let text = SMALLEST
        .replace("0.0.0.0:8080", "0.0.0.0")
        .replace("endpoints", "endpoint")
        .replace("key: ip", "key: ipp")
        .replace("100/minute", "100")
        .replace("policies: [per-client]", "policies: [per-clent]");
    let report = parse(&text).unwrap_err();
    // The misspelt field is also missing.
    assert_eq!(report.len(), 6, "{report}");
    assert_eq!(report.to_string().matches(": error: ").count(), 6, "{report}");
}

#[test]
fn a_report_has_a_bound() {
    let mut text = SMALLEST.to_owned();
    for index in 0..1500 {
        writeln!(text, "field{index}: 1").unwrap();
    }
    let report = parse(&text).unwrap_err();
    assert_eq!(report.len(), 1500);
    assert!(report.to_string().ends_with("gateway.yaml: and 500 more problems"), "{report}");
}

/// Regression: a thousand warnings hid all errors behind them, also from the file that names this one.
#[test]
fn errors_are_reported_however_many_warnings_there_are() {
    let mut text = SMALLEST.replace("upstream: app", "upstream: other");
    for index in 0..1100 {
        writeln!(text, "  - {{ path: /{index}, redirect: {{ to: /a }}, max_response: 9KiB }}")
            .unwrap();
    }
    writeln!(text, "  - {{ path: /last, upstream: none }}").unwrap();
    let report = parse(&text).unwrap_err();
    let errors: Vec<&str> =
        report.problems().filter(|it| !it.is_warning).map(|it| it.message).collect();
    let named = |route: usize, name: &str| {
        format!("route {route} names the upstream \"{name}\", which does not exist")
    };
    assert_eq!(errors, [named(1, "other"), named(1102, "none")]);
    assert_eq!(report.problems().count(), 1000);
}

/// Regression: each problem of a line took as long as the line is. This report took hours.
#[test]
fn a_long_line_may_have_many_problems() {
    let fields = (0..1000).map(|index| format!("\"field{index}\":\"{}\"", "x".repeat(2000)));
    let text = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
    assert!(text.len() > 2_000_000);
    let report = parse(&text).unwrap_err();
    assert_eq!(report.problems().count(), 1000);
    let last = report.to_string();
    assert!(last.contains("\"field999\" is not a field"), "{}", &last[last.len() - 500..]);
}

/// Regression: it was read by its value. The text counts where a field is a text.
#[test]
fn a_number_in_another_form_is_another_configuration() {
    let digest = |body: &str| {
        let route = format!("{SMALLEST}  - {{ path: /a, respond: {{ body: {body} }} }}\n");
        shown::digest(&parse(&route).unwrap().document.written)
    };
    for body in ["042", "0042", "+42", "0x2a", "42.0"] {
        assert_ne!(digest(body), digest("42"), "{body}");
    }
    let tagged = format!("{SMALLEST}runtime: {{ workers: !!int \"2\" }}\n");
    assert_eq!(compile(&tagged).runtime.workers, Some(2));
}

#[test]
fn files_above_8_mib_are_refused_and_those_below_are_not() {
    let most = usize::try_from(yaml::MAX_BYTES).unwrap();
    let comment = |bytes: usize| format!("#{}\n{SMALLEST}", "x".repeat(bytes - SMALLEST.len() - 2));
    assert_eq!(comment(most).len(), most);
    compile(&comment(most));
    let report = parse(&comment(most + 1)).unwrap_err().to_string();
    assert_eq!(
        report,
        "gateway.yaml: error: the file is larger than 8 MiB\n      | split it, or shorten it"
    );
}

#[test]
fn a_small_file_cannot_become_large_or_deep() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let wide = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), "*a,".repeat(10_000));
    let merged = format!("a: &a {{ x: 1 }}\nb: {{ {} }}", "<<: *a, ".repeat(20_000));
    for text in [deep, wide, merged] {
        let report = parse(&text).unwrap_err();
        assert_eq!(report.len(), 1, "{}", report.to_string().len());
    }
}

#[test]
fn inserted_files_have_a_total_bound() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("large"), "x".repeat(1024 * 1024)).unwrap();
    let text = format!("listeners: [{}]", "\"${file:large}\", ".repeat(100));
    let name = directory.path().join("gateway.yaml");
    let report = Config::parse(&text, &name.to_string_lossy(), &|_| None).unwrap_err();
    assert!(report.to_string().contains("all replacements together are larger than 8 MiB"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = load(Path::new("/nonexistent/gateway.yaml")).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read the configuration /nonexistent/gateway.yaml: "),
        "{error}"
    );
}

#[test]
fn the_schema_says_what_may_be_written() {
    let schema = schema();
    let policy = &schema["$defs"]["policy"];
    assert_eq!(policy["required"], serde_json::json!(["key", "limit"]));
    assert_eq!(policy["additionalProperties"], false);
    assert_eq!(policy["properties"]["limit"]["description"], "How much, or `unlimited`.");
}

/// Words of two types under one name would be the words of only one of them.
#[test]
fn each_field_of_words_has_its_own_in_the_schema() {
    let schema = schema();
    let words = |section: &str| {
        let field = &schema["$defs"][section]["properties"]["on_store_failure"];
        let reference = field["$ref"].as_str().or_else(|| field["allOf"][0]["$ref"].as_str());
        let name = reference.and_then(|it| it.strip_prefix("#/$defs/")).unwrap_or_default();
        let words = schema["$defs"][name.replace("%20", " ")]["oneOf"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        words.iter().map(|it| it["const"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(words("policy"), ["\"local\"", "\"allow\"", "\"deny\""]);
    assert_eq!(words("keys"), ["\"local\"", "\"deny\""]);
}

/// Whatever `text` is, there is a configuration or a report with a reason.
fn ends_well(text: &str) {
    if let Err(report) = parse(text) {
        assert!(!report.is_empty() && !report.to_string().is_empty());
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_compiler_panic(text in "[a-z0-9:{}\\[\\]*&!|>'\"#%@,\\-?$ \n\t.äÿ/~<]{0,80}") {
        ends_well(&text);
    }

    #[test]
    fn no_damage_to_a_good_file_makes_the_compiler_panic(
        at in 0..LARGEST.len(),
        length in 0..40_usize,
        with in "[a-z:{}\\[\\]*&'\"#,\\-$ \n]{0,4}",
    ) {
        let end = (at + length).min(LARGEST.len());
        if LARGEST.is_char_boundary(at) && LARGEST.is_char_boundary(end) {
            let mut text = LARGEST.to_owned();
            text.replace_range(at..end, &with);
            ends_well(&text);
        }
    }
}

#[test]
fn a_byte_order_mark_and_the_line_ends_of_windows_change_nothing() {
    let text = format!("\u{feff}{}", SMALLEST.trim_start().replace('\n', "\r\n"));
    compile(&text);
    let report = parse(&text.replace("path", "paht")).unwrap_err().to_string();
    assert!(report.contains(":8:7: error: \"paht\" is not a field"), "{report}");
    assert!(report.contains("\n      |       ^^^^ did you mean \"path\"?"), "{report}");
    // Regression: the mark was shown as a character of the first line.
    let report = parse("\u{feff}x: 1").unwrap_err().to_string();
    assert!(report.contains(":1:1: error: \"x\" is not a field"), "{report}");
    assert!(report.contains("\n    1 | x: ***\n      | ^ "), "{report}");
}

#[test]
fn a_file_that_is_no_text_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.yaml");
    std::fs::write(&path, b"a: \xff").unwrap();
    let error = load(&path).unwrap_err().to_string();
    assert!(error.ends_with("gateway.yaml: it is not UTF-8 text"), "{error}");
    std::fs::write(&path, SMALLEST).unwrap();
    assert_eq!(load(&path).unwrap().config.routes.len(), 1);
}

#[test]
fn a_name_that_is_a_number_must_be_quoted_since_it_could_hide_a_duplicate() {
    let policies = |lines: &str| {
        SMALLEST
            .replace("  per-client: { key: ip, limit: 100/minute }", lines)
            .replace("per-client", "p")
    };
    let one = "{ key: ip, limit: 5/s }";
    for number in ["1", "-1", "0x1F", "1_000"] {
        let report = parse(&policies(&format!("  {number}: {one}\n  p: {one}\n  p: {one}")));
        let report = report.unwrap_err().to_string();
        assert!(report.contains(&format!("the name {number} is a number")), "{report}");
    }
    for name in ["\"1\"", "1a", "2xx", "0xg", "one"] {
        compile(&policies(&format!("  {name}: {one}\n  p: {one}")));
        let report =
            parse(&policies(&format!("  {name}: {one}\n  p: {one}\n  p: {one}"))).unwrap_err();
        assert!(report.to_string().contains("\"p\" appears a second time"), "{report}");
    }
}

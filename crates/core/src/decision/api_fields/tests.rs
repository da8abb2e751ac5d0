//! The fields of APIs as responses contain them.

use super::*;
use crate::algorithm::{Retry, Verdict};
use crate::decision::tests::{policy, shared};
use crate::decision::{Lacking, Lease, Reports};
use crate::meter::UsageApi;
use crate::policy::Mode;

/// 2026-11-21T07:28:46.5Z.
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_500_000);

fn tokens_of(name: &str, weights: Weights) -> Arc<Policy> {
    let meter = MeterSpec::Usage { api: UsageApi::OpenAi, tariff: weights.into() };
    let cost = Cost::Metered { reserve: 10, estimate: None, meter };
    Arc::new(Policy { cost, ..policy(name, 1000, Span::from_secs(60)) })
}

fn report(policy: &Arc<Policy>, remaining: u64, reset_s: u64) -> Report<&Arc<Policy>> {
    let verdict = Verdict {
        admitted: true,
        limit: policy.algorithm.limit(),
        remaining,
        retry: Retry::Now,
        reset_after: Span::from_secs(reset_s),
        delay: Span::ZERO,
    };
    crate::decision::tests::report(policy, verdict, 1)
}

/// The fields of a response that had the fields `sent`, in alphabetical order.
fn written(
    api: FieldApi,
    reports: &[Report<&Arc<Policy>>],
    sent: &[(&'static str, &'static str)],
) -> Vec<String> {
    let mut fields = HeaderMap::new();
    for (name, value) in sent {
        fields.append(*name, HeaderValue::from_static(value));
    }
    let reports = reports.iter().copied().collect::<Reports<&Arc<Policy>>>();
    let decision = Decision::combine(reports, Lacking::new(), Lease::default());
    if let Some(of_api) = ApiFields::of(api, &decision, NOW) {
        of_api.write(false, &mut fields);
    }
    let mut lines: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    lines
}

#[test]
fn requests_and_tokens_are_told_apart() {
    let [requests, more] = ["a", "b"].map(|name| shared(name, 100, Span::from_secs(60)));
    let [tokens, others] = ["c", "d"].map(|name| tokens_of(name, Weights::default()));
    let reports = [
        report(&requests, 7, 3661),
        report(&tokens, 500, 360),
        report(&others, 499, 59),
        report(&more, 8, 1),
    ];
    assert_eq!(
        written(FieldApi::OpenAi, &reports, &[]),
        [
            "x-ratelimit-limit-requests: 100",
            "x-ratelimit-limit-tokens: 1000",
            "x-ratelimit-remaining-requests: 7",
            "x-ratelimit-remaining-tokens: 499",
            "x-ratelimit-reset-requests: 1h1m1s",
            "x-ratelimit-reset-tokens: 59s",
        ]
    );
    assert_eq!(
        written(FieldApi::Anthropic, &reports, &[]),
        [
            "anthropic-ratelimit-requests-limit: 100",
            "anthropic-ratelimit-requests-remaining: 7",
            "anthropic-ratelimit-requests-reset: 2026-11-21T08:29:48Z",
            "anthropic-ratelimit-tokens-limit: 1000",
            "anthropic-ratelimit-tokens-remaining: 499",
            "anthropic-ratelimit-tokens-reset: 2026-11-21T07:29:46Z",
        ]
    );
}

#[test]
fn tokens_of_the_input_and_of_the_output_have_fields_of_their_own() {
    let none = Weights { input: 0, cache_read: 0, cache_write: 0, output: 0 };
    let input = tokens_of("in", Weights { input: 100, ..none });
    let output = tokens_of("out", Weights { output: 500, ..none });
    let reports = [report(&input, 5, 1), report(&output, 6, 1)];
    let lines = written(FieldApi::Anthropic, &reports, &[]);
    assert!(lines.contains(&"anthropic-ratelimit-input-tokens-remaining: 5".to_owned()));
    assert!(lines.contains(&"anthropic-ratelimit-output-tokens-remaining: 6".to_owned()));
    assert_eq!(lines.len(), 6);
    let lines = written(FieldApi::OpenAi, &reports, &[]);
    assert!(lines.contains(&"x-ratelimit-remaining-tokens: 5".to_owned()));
    assert_eq!(lines.len(), 3);
}

#[test]
fn other_units_are_not_shown() {
    let window = Span::from_secs(60);
    let twice = Arc::new(Policy { cost: Cost::Fixed(2), ..policy("a", 100, window) });
    let bytes = std::num::NonZeroU64::MIN;
    let sized =
        Arc::new(Policy { cost: Cost::Body { unit_bytes: bytes }, ..policy("b", 9, window) });
    let shadow = Arc::new(Policy { mode: Mode::Shadow, ..policy("c", 100, window) });
    let reports = [&twice, &sized, &shadow].map(|policy| report(policy, 3, 1));
    for api in [FieldApi::OpenAi, FieldApi::Anthropic] {
        assert!(written(api, &reports, &[]).is_empty());
    }
}

#[test]
fn of_the_fields_of_the_upstream_the_smaller_rest_stays() {
    let requests = shared("a", 100, Span::from_secs(60));
    let remaining = |sent: &'static str| {
        let sent = [
            ("x-ratelimit-limit-requests", "50"),
            ("x-ratelimit-remaining-requests", sent),
            ("x-ratelimit-reset-requests", "20ms"),
            ("x-ratelimit-remaining-tokens", "9"),
        ];
        written(FieldApi::OpenAi, &[report(&requests, 7, 60)], &sent)
    };
    let own = [
        "x-ratelimit-limit-requests: 100",
        "x-ratelimit-remaining-requests: 7",
        "x-ratelimit-remaining-tokens: 9",
        "x-ratelimit-reset-requests: 1m0s",
    ];
    let upstream = [
        "x-ratelimit-limit-requests: 50",
        "x-ratelimit-remaining-requests: 6",
        "x-ratelimit-remaining-tokens: 9",
        "x-ratelimit-reset-requests: 20ms",
    ];
    assert_eq!(remaining("6"), upstream);
    for sent in ["7", "8", "many", ""] {
        assert_eq!(remaining(sent), own, "{sent}");
    }
}

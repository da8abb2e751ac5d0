//! The first charge of requests.

use std::num::NonZeroU64;

use http::HeaderName;

use super::*;
use crate::meter::MeterSpec;
use crate::policy::tests::{Case, policy, with};

fn cost(case: &Case, cost: Cost) -> u64 {
    let policy = Policy { cost, ..policy("ip") };
    case.ask(&policy, |subject| subject.cost(&policy))
}

fn trusted(headers: &[(&'static str, &str)]) -> Case {
    Case { peer: [10, 0, 0, 1].into(), ..with(headers) }
}

#[test]
fn a_cost_field_counts_from_trusted_peers_only_and_up_to_its_maximum() {
    let field =
        || Cost::Field { name: HeaderName::from_static("x-cost"), default: 3, max: Some(50) };
    let named = |value| cost(&trusted(&[("x-cost", value)]), field());
    assert_eq!([named("0"), named("7"), named("50"), named("51")], [0, 7, 50, 50]);
    assert_eq!(named("99999999999999999999999999"), 50);
    for unclear in ["", "-1", "+7", "7.0", "7e1", "0x7", "seven"] {
        assert_eq!(named(unclear), 3, "{unclear}");
    }
    assert_eq!(cost(&trusted(&[]), field()), 3);
    assert_eq!(cost(&trusted(&[("x-cost", "1"), ("x-cost", "2")]), field()), 3);
    let forwarded = [("x-cost", "0"), ("x-forwarded-for", "10.0.0.1")];
    assert_eq!(cost(&with(&forwarded), field()), 3);
}

#[test]
fn a_body_costs_one_for_each_unit_that_its_length_starts() {
    let body = || Cost::Body { unit_bytes: NonZeroU64::new(1024).unwrap() };
    let long = |length| cost(&with(&[("content-length", length)]), body());
    assert_eq!([long("0"), long("1"), long("1024"), long("1025")], [0, 1, 1, 2]);
    assert_eq!(long("18446744073709551616"), u64::MAX.div_ceil(1024));
    assert_eq!(cost(&with(&[("transfer-encoding", "chunked")]), body()), 1);
    assert_eq!(cost(&with(&[]), body()), 1);
}

#[test]
fn a_cost_that_the_response_names_is_reserved_with_at_least_one_unit() {
    let metered = |reserve| {
        let meter = MeterSpec::Header(HeaderName::from_static("x-used"));
        cost(&with(&[]), Cost::Metered { reserve, estimate: None, meter })
    };
    assert_eq!([metered(0), metered(1), metered(2000)], [1, 1, 2000]);
    assert_eq!([cost(&with(&[]), Cost::Fixed(0)), cost(&with(&[]), Cost::Fixed(4))], [0, 4]);
}

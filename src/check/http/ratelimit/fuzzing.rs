//! The fuzz target of questions to the rate limit service.

use std::collections::HashSet;
use std::mem::replace;
use std::sync::LazyLock;

use prost::Message as _;
use tollgate_core::digest::Secret;

use super::question;
use crate::check::grpc::ratelimit::{self, RateLimitRequest};
use crate::check::http::api::fuzzing::read_or_point;
use crate::check::rls::{Amount, Domains, Level, Matched, Node, Rule, Rules, Switches, Unit};

/// The longest label of a metric.
const LONGEST: usize = 256;

/// Rules of several kinds in the domain `d`.
static DOMAINS: LazyLock<Domains> = LazyLock::new(|| {
    let rule = |unit| Rule::new(Amount::PerUnit(5, unit));
    let node = |key: &str, value: &str, rule| Node {
        key: key.into(),
        value: value.into(),
        rule: Some(rule),
        ..Node::default()
    };
    let mut below = Level::default();
    let detailed = Rule { detailed_metric: true, ..rule(Unit::Hour) };
    let shared = Node { share_threshold: true, ..node("b", "x*y", detailed) };
    let replacing = Rule { replaces: vec!["n".into()], shadow: true, ..rule(Unit::Day) };
    for node in [shared, node("b", "", replacing), node("b", "v", Rule::new(Amount::Unlimited))] {
        below.add(node).expect("it is the only one");
    }
    let mut level = Level::default();
    let named = Rule { name: "n".into(), ..rule(Unit::Minute) };
    let above = Node { below, value_to_metric: true, ..node("a", "", named) };
    let quota = Rule { quota: true, ..rule(Unit::Second) };
    for node in [above, node("q", "*", quota)] {
        level.add(node).expect("it is the only one");
    }
    Domains::new([("d".into(), level)])
});

/// A question in JSON, or as a message. A mistake in JSON has a place, a question stays the same
/// as a message, and one round charges each counter once, for descriptors that have a limit.
pub fn descriptors(input: &[u8]) {
    let questions = [read_or_point(input, question::read), RateLimitRequest::decode(input).ok()];
    for question in questions.into_iter().flatten() {
        let again = RateLimitRequest::decode(&*question.encode_to_vec());
        assert_eq!(again.as_ref(), Ok(&question), "a question has changed");
        for together in [false, true] {
            check_plan(&question, Switches { together, ..Switches::default() });
        }
    }
}

fn check_plan(question: &RateLimitRequest, switches: Switches) {
    let Ok(descriptors) = ratelimit::descriptors(question) else { return };
    let rules = Rules { domains: &DOMAINS, switches, secret: Secret::from_bytes([7; 16]) };
    let plan = rules.plan(&question.domain, &descriptors);
    assert_eq!(plan.matched.len(), descriptors.len(), "each descriptor has an answer");
    let mut charged = HashSet::new();
    let mut is_charged = vec![false; descriptors.len()];
    for slot in &plan.slots {
        let policy = &slot.policy;
        let round = slot.round;
        let counter =
            (policy.counter.bits(), policy.algorithm.window().as_micros(), slot.principal);
        assert!(charged.insert((round, counter)), "a round charges a counter twice");
        for &index in &slot.descriptors {
            assert!(!replace(&mut is_charged[index], true), "a descriptor is charged twice");
        }
    }
    for (matched, is_charged) in plan.matched.iter().zip(is_charged) {
        let Matched::Limited(limited) = matched else {
            assert!(!is_charged, "a descriptor without a limit is charged");
            continue;
        };
        assert!(is_charged == (limited.requests > 0), "a descriptor with a limit is not charged");
        let labels = [Some(&limited.series.key1), limited.series.key2.as_ref()];
        assert!(labels.into_iter().flatten().all(|it| it.len() <= LONGEST), "a long label");
    }
}

//! The message that answers a question.

use std::borrow::Borrow as _;
use std::sync::Arc;

use tollgate_core::policy::Policy;

use super::fields::{field, fields, retry_after};
use crate::check::grpc::messages::ratelimit::{
    Code, DescriptorStatus, RateLimit, RateLimitRequest, RateLimitResponse,
};
use crate::check::grpc::messages::values::{Duration, Kind, ListValue, Struct, Value};
use crate::check::rls::{Answer, Matched, Plan, RateLimits, Status, Unit};
use crate::message::{Refusal, fill_template};
use crate::snapshot::Snapshot;

/// The answer to a question, under the policies of this configuration.
pub fn response(
    limits: &RateLimits,
    snapshot: &Snapshot,
    plan: &Plan<'_>,
    answer: &Answer<'_>,
    metadata: Option<Struct>,
) -> RateLimitResponse {
    let mut response = RateLimitResponse {
        overall_code: Code::of(answer.is_over),
        statuses: answer.statuses.iter().map(status).collect(),
        response_headers_to_add: fields(answer, &limits.fields),
        request_headers_to_add: Vec::new(),
        raw_body: Vec::new(),
        dynamic_metadata: metadata,
    };
    if answer.is_over {
        add_body(snapshot, plan, answer, &mut response);
    }
    response
}

/// Envoy drops the nanoseconds of a duration, and makes waits for its clients of it.
fn status(status: &Status<'_>) -> DescriptorStatus {
    let limit = |&(requests_per_unit, unit, name): &(u32, Option<Unit>, &str)| RateLimit {
        requests_per_unit,
        unit: unit.map_or(0, Unit::number),
        name: name.to_owned(),
    };
    let reset = status.reset.and_then(|reset| i64::try_from(reset.as_secs_ceil()).ok());
    DescriptorStatus {
        code: Code::of(status.is_over),
        current_limit: status.limit.as_ref().map(limit),
        limit_remaining: status.remaining,
        duration_until_reset: reset.map(|seconds| Duration { seconds, nanos: 0 }),
    }
}

/// Adds the response that the first policy configures whose limit is exceeded.
fn add_body(
    snapshot: &Snapshot,
    plan: &Plan<'_>,
    answer: &Answer<'_>,
    response: &mut RateLimitResponse,
) {
    let is_over = |index: &usize| answer.statuses.get(*index).is_some_and(|it| it.is_over);
    let with_template = |policy: &Arc<Policy>| {
        let known = snapshot.policies.iter().any(|other| Arc::ptr_eq(other, policy));
        known && policy.response.is_some()
    };
    let mut over = plan.slots.iter().filter_map(|slot| {
        let index = *slot.descriptors.iter().find(|index| is_over(index))?;
        Some((&slot.policy, &answer.statuses[index]))
    });
    let Some((policy, status)) = over.find(|(policy, _)| with_template(policy)) else { return };
    let Some(template) = &policy.response else { return };
    let refusal = Refusal {
        policies: &[policy.name.borrow()],
        limit: status.limit.map_or(0, |(requests, ..)| requests.into()),
        remaining: status.remaining.into(),
        unit: policy.unit(),
        wait: retry_after(answer).map(tollgate_core::time::Span::from_secs),
        message: None,
        template: Some(template),
    };
    response.raw_body = fill_template(template, &refusal).into_body().into();
    if let Ok(content_type) = template.content_type.to_str() {
        response.response_headers_to_add.push(field("content-type", content_type.to_owned()));
    }
}

/// What Envoy writes into its dynamic metadata: the question, and the metadata of the limits that
/// are not exceeded. Of several values of a name, the first one stays; maps are merged.
pub fn metadata(question: &RateLimitRequest, plan: &Plan<'_>, answer: &Answer<'_>) -> Struct {
    let text = |text: String| Value { kind: Some(Kind::String(text)) };
    let list = |values| Value { kind: Some(Kind::List(ListValue { values })) };
    let map = |fields| Value { kind: Some(Kind::Struct(fields)) };
    let number = |number: u32| Value { kind: Some(Kind::Number(number.into())) };
    let mut fields = Struct::default();
    let mut add = |name: &str, value| fields.fields.insert(name.to_owned(), value);
    add("domain", text(question.domain.clone()));
    let descriptors = question.descriptors.iter().map(|descriptor| {
        let entry = |it: &crate::check::grpc::messages::ratelimit::Entry| {
            text(format!("{}={}", it.key, it.value))
        };
        let entries = list(descriptor.entries.iter().map(entry).collect());
        let hits = descriptor
            .hits_addend
            .map(|hits| ("hitsAddend".to_owned(), number(u32::try_from(hits).unwrap_or(u32::MAX))));
        let fields = [("entries".to_owned(), entries)].into_iter().chain(hits).collect();
        map(Struct { fields })
    });
    add("descriptors", list(descriptors.collect()));
    if question.hits_addend != 0 {
        add("hitsAddend", number(question.hits_addend));
    }
    let mut merged = Struct::default();
    for index in &answer.passed {
        if let Matched::Limited(limited) = &plan.matched[*index]
            && let Some(own) = limited.metadata
        {
            merge(&mut merged, own.into());
        }
    }
    if !merged.fields.is_empty() {
        add("metadata", map(merged));
    }
    fields
}

fn merge(into: &mut Struct, from: Struct) {
    for (name, value) in from.fields {
        match (into.fields.get_mut(&name).map(|it| &mut it.kind), value.kind) {
            (None, kind) => {
                into.fields.insert(name, Value { kind });
            }
            (Some(Some(Kind::Struct(into))), Some(Kind::Struct(from))) => merge(into, from),
            (Some(_), _) => {}
        }
    }
}

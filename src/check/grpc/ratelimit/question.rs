//! What a question may contain.

use crate::check::grpc::framing::Failed;
use crate::check::grpc::messages::ratelimit::{
    RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
};
use crate::check::rls::{Descriptor, Entry, Hits, Override, Unit};

/// The most descriptors of a question.
pub const MAX_DESCRIPTORS: usize = 128;

/// The descriptors of a question.
///
/// # Errors
/// If a part is missing, or there are too many descriptors.
pub fn descriptors(question: &RateLimitRequest) -> Result<Vec<Descriptor<'_>>, Failed> {
    if question.domain.is_empty() {
        return Err(Failed::invalid("the domain is empty"));
    }
    match question.descriptors.len() {
        0 => Err(Failed::invalid("there are no descriptors")),
        1..=MAX_DESCRIPTORS => {
            let each = question.descriptors.iter();
            each.map(|it| descriptor(it, question.hits_addend)).collect()
        }
        _ => Err(Failed::invalid(format!("there are more than {MAX_DESCRIPTORS} descriptors"))),
    }
}

fn descriptor(it: &RateLimitDescriptor, hits: u32) -> Result<Descriptor<'_>, Failed> {
    if it.entries.is_empty() {
        return Err(Failed::invalid("a descriptor has no entries"));
    }
    if it.entries.iter().any(|entry| entry.key.is_empty()) {
        return Err(Failed::invalid("the key of an entry is empty"));
    }
    let instead = |it: &RateLimitOverride| match Unit::of_number(it.unit) {
        Some(unit) => Ok(Override { requests: it.requests_per_unit, unit }),
        None => Err(Failed::invalid(format!("the limit has the unknown unit {}", it.unit))),
    };
    Ok(Descriptor {
        entries: it.entries.iter().map(|it| Entry { key: &it.key, value: &it.value }).collect(),
        instead: it.limit.as_ref().map(instead).transpose()?,
        hits: Hits::new(it.hits_addend, hits, it.is_negative_hits),
    })
}

#[cfg(test)]
mod tests {
    use tollgate_core::refusal::grpc::Code as GrpcCode;

    use super::*;
    use crate::check::grpc::messages::ratelimit::Entry as Sent;

    fn question() -> RateLimitRequest {
        let entry = Sent { key: "k".to_owned(), value: String::new() };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
        RateLimitRequest { domain: "d".to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
    }

    #[test]
    fn what_is_missing_is_an_error() {
        assert_eq!(descriptors(&question()).unwrap()[0].hits, Hits::Add(1));
        type Change = fn(&mut RateLimitRequest);
        let changes: [(Change, &str); 6] = [
            (|it| it.domain.clear(), "domain"),
            (|it| it.descriptors.clear(), "no descriptors"),
            (|it| it.descriptors[0].entries.clear(), "no entries"),
            (|it| it.descriptors[0].entries[0].key.clear(), "key of an entry"),
            (|it| it.descriptors[0].limit = Some(RateLimitOverride::default()), "unit 0"),
            (|it| it.descriptors = vec![it.descriptors[0].clone(); 129], "more than 128"),
        ];
        for (change, part) in changes {
            let mut question = question();
            change(&mut question);
            let failed = descriptors(&question).unwrap_err();
            assert_eq!(failed.code, GrpcCode::InvalidArgument);
            assert!(failed.message.contains(part), "{}", failed.message);
        }
        let mut most = question();
        most.descriptors = vec![most.descriptors[0].clone(); 128];
        assert_eq!(descriptors(&most).unwrap().len(), 128);
    }
}

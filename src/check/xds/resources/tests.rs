//! Good resources and faulty ones, and the same rules as messages and as a file.

use super::*;
use crate::check::grpc::ratelimit::{Kind, ProtoValue, Struct};
use crate::check::rls::Entry;
use crate::check::xds::messages::RateLimitReplace;

fn any(config: &RateLimitConfig) -> Any {
    Any { type_url: TYPE_URL.to_owned(), value: config.encode_to_vec().into() }
}

fn config(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
    RateLimitConfig { name: format!("resource-{domain}"), domain: domain.to_owned(), descriptors }
}

fn descriptor(key: &str, unit: i32, requests: u32) -> RateLimitDescriptor {
    let policy = RateLimitPolicy { unit, requests_per_unit: requests, ..Default::default() };
    RateLimitDescriptor {
        key: key.to_owned(),
        rate_limit: Some(policy),
        ..RateLimitDescriptor::default()
    }
}

fn read_all(configs: &[RateLimitConfig]) -> Result<Domains, String> {
    let own = BTreeSet::from(["own".into()]);
    read(configs.iter().map(any).collect(), Terms { merge: false, own: &own })
}

/// The mistakes of a domain with these descriptors.
fn mistakes(descriptors: Vec<RateLimitDescriptor>) -> String {
    read_all(&[config("d", descriptors)]).expect_err("there is a mistake")
}

#[test]
fn each_mistake_names_its_resource_and_its_place() {
    let with = |change: fn(&mut RateLimitPolicy)| {
        let mut it = descriptor("k", 2, 1);
        it.rate_limit.iter_mut().for_each(change);
        mistakes(vec![descriptor("first", 1, 1), it])
    };
    let at = |part: &str| format!("resource-d: descriptors[1].rate_limit{part}: error: ");
    let units = "(one of: second, minute, hour, day, week, month, year)";
    assert_eq!(with(|it| it.unit = 9), format!("{}\"9\" is not a unit {units}", at(".unit")));
    assert_eq!(with(|it| it.unit = 0), format!("{}the limit has no unit {units}", at(".unit")));
    let unlimited = with(|it| it.unlimited = true);
    assert_eq!(unlimited, at(".unit") + "an unlimited limit has no unit (remove one of them)");
    let own = with(|it| {
        it.name = "a".to_owned();
        let replace = |name: &str| RateLimitReplace { name: name.to_owned() };
        it.replaces = vec![replace("b"), replace("a")];
    });
    assert_eq!(own, at(".replaces[1]") + "a limit cannot replace itself (name another one)");
    let mut upper = descriptor("a", 1, 1);
    upper.descriptors = vec![descriptor("b", 1, 1), descriptor("", 1, 1), descriptor("b", 2, 1)];
    upper.value = "x".to_owned();
    assert_eq!(
        mistakes(vec![upper]),
        "resource-d: descriptors[0].descriptors[1]: error: the descriptor has no key (like key: \
         remote_address)\nresource-d: descriptors[0].descriptors[2].key: error: there is a second \
         descriptor d.a_x.b (remove or change one of them)"
    );
}

#[test]
fn a_resource_that_cannot_be_a_domain_is_a_mistake() {
    let error = |configs: &[RateLimitConfig]| read_all(configs).expect_err("a mistake");
    assert!(error(&[config("", vec![])]).contains("resource-: error: the resource has no domain"));
    let twice = error(&[config("d", vec![]), config("d", vec![])]);
    assert!(twice.contains("another resource is about the domain \"d\" too"), "{twice}");
    let own = error(&[config("own", vec![])]);
    assert!(own.contains("the domain \"own\" is in check.grpc.domains too"), "{own}");
    let none = BTreeSet::new();
    let terms = Terms { merge: true, own: &none };
    let two = [config("d", vec![descriptor("a", 1, 1)]), config("d", vec![descriptor("b", 1, 1)])];
    assert_eq!(read(two.iter().map(any).collect(), terms).map(|it| it.len()), Ok(2));
    let other = Any { type_url: "type.googleapis.com/other".to_owned(), ..any(&two[0]) };
    let error = read(vec![any(&two[0]), other], terms).expect_err("a mistake");
    assert!(error.starts_with("resource 2: error: the type \"type.googleapis.com/other\" is not"));
    let broken = Any { value: vec![0xff].into(), ..any(&two[0]) };
    let error = read(vec![broken], terms).expect_err("a mistake");
    assert!(error.starts_with("resource 1: error: the message is malformed"), "{error}");
}

#[test]
fn what_a_server_can_make_grow_has_a_bound() {
    let many = (0..100).map(|_| descriptor("", 1, 1)).collect();
    let error = mistakes(many);
    assert_eq!((error.lines().count(), error.ends_with("and 84 more mistakes")), (17, true));
    let long = mistakes(vec![descriptor(&"k\n".repeat(5000), 9, 1)]);
    assert!(long.len() < 2000 && long.lines().count() == 1, "{}", long.len());
    let row: Vec<_> = (0..1001).map(|it| descriptor(&it.to_string(), 1, 1)).collect();
    let nested = (0..1000).map(|it| RateLimitDescriptor {
        descriptors: row.clone(),
        ..descriptor(&it.to_string(), 1, 1)
    });
    let error = mistakes(nested.collect());
    assert!(error.ends_with("there are more than 1000000 descriptors"), "{error}");
    // A message with more levels than a decoder takes.
    let mut deep = descriptor("k", 1, 1);
    for _ in 0..200 {
        deep = RateLimitDescriptor { descriptors: vec![deep], ..descriptor("k", 1, 1) };
    }
    assert!(mistakes(vec![deep]).contains("the message is malformed"));
}

#[test]
fn all_fields_arrive_and_0_requests_block() {
    let mut full = descriptor("k", 7, 0);
    let number = ProtoValue { kind: Some(Kind::Number(1.5)) };
    full.metadata = Some(Struct { fields: [("a".to_owned(), number)].into() });
    (full.shadow_mode, full.quota_mode, full.detailed_metric) = (true, true, true);
    let unlimited = RateLimitPolicy {
        unlimited: true,
        name: "n".to_owned(),
        replaces: vec![RateLimitReplace { name: "m".to_owned() }],
        ..RateLimitPolicy::default()
    };
    full.descriptors =
        vec![RateLimitDescriptor { rate_limit: Some(unlimited), ..descriptor("below", 1, 1) }];
    let domains = read_all(&[config("d", vec![full])]).expect("it is good");
    let entry = |key| Entry { key, value: "v" };
    let rule = domains.search("d", &[entry("k")]).expect("a limit").rule;
    assert_eq!(format!("{:?}", rule.amount), "PerUnit(0, Week)");
    assert_eq!((rule.shadow, rule.quota, rule.detailed_metric), (true, true, true));
    assert_eq!(serde_json::Value::from(rule.metadata.clone()), serde_json::json!({ "a": 1.5 }));
    let rule = domains.search("d", &[entry("k"), entry("below")]).expect("a limit").rule;
    assert_eq!(format!("{:?}", rule.amount), "Unlimited");
    assert_eq!((&*rule.name, &*rule.replaces[0]), ("n", "m"));
}

/// Bytes of a server that has gone wrong are rules or a mistake.
#[test]
fn changed_bytes_are_rules_or_a_mistake() {
    let mut rng = fastrand::Rng::with_seed(7);
    let none = BTreeSet::new();
    let mut upper = descriptor("a", 1, 1);
    upper.descriptors = vec![descriptor("b", 2, 3), descriptor("c*", 7, 0)];
    let whole = any(&config("d", vec![upper, descriptor("x", 3, 9)]));
    let mut kinds = [0, 0];
    for _ in 0..2000 {
        let mut bytes = whole.value.to_vec();
        for _ in 0..rng.usize(..3) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        if rng.bool() {
            bytes.truncate(rng.usize(..=bytes.len()));
        }
        let changed = Any { value: bytes.into(), ..whole.clone() };
        let read = read(vec![changed], Terms { merge: false, own: &none });
        kinds[usize::from(read.is_err())] += 1;
        assert!(read.err().is_none_or(|it| !it.is_empty()));
    }
    assert!(kinds.iter().all(|it| *it > 20), "{kinds:?}");
}

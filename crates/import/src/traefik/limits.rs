//! `rateLimit` and `inFlightReq`. The counters of Traefik belong to a router.

use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::quantity::number_and_unit;

/// A duration of Go, or a number of seconds, as the gateway writes it.
pub fn duration(text: &str) -> Option<String> {
    if text.parse::<u64>().is_ok_and(|it| it > 0) {
        return Some(format!("{text}s"));
    }
    let ns = nanoseconds(text)?;
    let ms = u64::try_from(ns / NS_OF_MS).ok()?;
    (ms > 0 && ns.is_multiple_of(NS_OF_MS)).then(|| crate::quantity::period(ms))
}

/// The same in milliseconds, rounded up.
pub fn milliseconds(text: &str) -> Option<u64> {
    match text.parse::<u64>() {
        Ok(seconds) => seconds.checked_mul(1000),
        Err(_) => u64::try_from(nanoseconds(text)?.div_ceil(NS_OF_MS)).ok(),
    }
}

/// Nanoseconds in a millisecond.
const NS_OF_MS: u128 = 1_000_000;

/// A duration of Go, whose numbers may have a point.
fn nanoseconds(text: &str) -> Option<u128> {
    const UNITS: [(&str, u128); 8] = [
        ("ns", 1),
        ("us", 1000),
        ("\u{b5}s", 1000),
        ("\u{3bc}s", 1000),
        ("ms", NS_OF_MS),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let text = text.strip_prefix('+').unwrap_or(text);
    let mut rest = text;
    let mut sum = 0_u128;
    while !rest.is_empty() || text.is_empty() {
        // Nothing needs to stand before a point, if a digit stands behind it.
        let is_fraction =
            rest.starts_with('.') && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        let (whole, after) = if is_fraction { (0, rest) } else { number_and_unit(rest)? };
        let (digits, after) = match after.strip_prefix('.') {
            Some(after) => {
                let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                (&after[..end.min(9)], &after[end..])
            }
            None => ("", after),
        };
        let is_unit = |(name, size): &(&str, u128)| Some((*size, after.strip_prefix(name)?));
        let (size, after) = UNITS.iter().find_map(is_unit)?;
        let mut part = size;
        let mut ns = u128::from(whole).checked_mul(size)?;
        // Digits that give less than a nanosecond do not count.
        for digit in digits.bytes() {
            part /= 10;
            ns += part * u128::from(digit - b'0');
        }
        sum = sum.checked_add(ns)?;
        rest = after;
    }
    Some(sum)
}

/// The policy of a `rateLimit` for a router.
pub fn rate(
    router: &str,
    name: &str,
    node: &Node,
    plan: &mut Plan,
    notes: &mut Notes,
) -> Option<String> {
    let place = node.place;
    let average = node.get("average").text().unwrap_or("0").parse::<u64>().ok();
    let burst = node.get("burst").text().unwrap_or("1").parse::<u64>().ok();
    let period = duration(node.get("period").text().unwrap_or("1s"));
    let (Some(average), Some(burst), Some(period)) = (average, burst, period) else {
        notes.lost("rateLimit", place, format!("{name}: its numbers cannot be read"));
        return None;
    };
    if average == 0 {
        notes.needless("rateLimit", place, format!("{name}: an average of 0 is no limit"));
        return None;
    }
    let mut policy = key("rateLimit", "ip", node, plan, notes);
    let limit = format!("{average}/{period}");
    let burst = burst.clamp(1, 1_000_000_000);
    policy.put("algorithm", "token_bucket");
    policy.put("limit", &*limit);
    policy.put("burst", burst);
    redis(node.get("redis"), plan, notes);
    let about = format!("{limit}, {burst} at once");
    let policy = plan.policies.add(&format!("{router}-{name}"), place, policy);
    notes.taken("rateLimit", place, format!("router {router}: policy {policy:?}, {about}"));
    Some(policy)
}

/// The policy of an `inFlightReq` for a router.
pub fn in_flight(
    router: &str,
    name: &str,
    node: &Node,
    plan: &mut Plan,
    notes: &mut Notes,
) -> Option<String> {
    let Some(amount) = node.number("amount").filter(|it| *it > 0) else {
        notes.lost("inFlightReq", node.place, format!("{name}: its amount cannot be read"));
        return None;
    };
    let mut policy = key("inFlightReq", "host", node, plan, notes);
    policy.put("algorithm", "concurrency");
    policy.put("limit", amount);
    let policy = plan.policies.add(&format!("{router}-{name}"), node.place, policy);
    let what = format!("router {router}: policy {policy:?}, {amount} in progress");
    notes.taken("inFlightReq", node.place, what);
    Some(policy)
}

/// The fields of a strategy by which Traefik takes an address of `X-Forwarded-For`.
const FORWARDED: [&str; 2] = ["depth", "excludedIPs"];

/// The fields of the key.
fn key(kind: &str, standard: &str, node: &Node, plan: &Plan, notes: &mut Notes) -> Map {
    let criterion = node.get("sourceCriterion");
    let header = criterion.get("requestHeaderName");
    if let Some(name) = header.text() {
        let what =
            "requests without the field share a counter there; here each counts by its address";
        notes.different(
            kind,
            header.place,
            format!("key header:{}; {what}", name.to_ascii_lowercase()),
        );
        return Map::default().with("key", format!("header:{}", name.to_ascii_lowercase()));
    }
    if criterion.is("requestHost", false) {
        return Map::default().with("key", "host");
    }
    let strategy = criterion.get("ipStrategy");
    let is_set = |field| {
        let own = strategy.get(field);
        !own.is_null() && own.text() != Some("0")
    };
    let is_forwarded = FORWARDED.into_iter().any(is_set);
    let is_by_address = !strategy.is_null() || standard == "ip";
    if is_by_address && !is_forwarded && plan.client.get("trusted_proxies").is_some() {
        let what = "Traefik counts the address of the connection, also that of a proxy; here the \
                    address that a proxy of client.trusted_proxies names";
        notes.different(kind, node.place, what);
    }
    if strategy.is_null() {
        return Map::default().with("key", standard);
    }
    for field in FORWARDED.into_iter().filter(|field| is_set(field)) {
        let what = format!(
            "{field}: Traefik takes an address of X-Forwarded-For; here client.trusted_proxies must name \
             your proxies"
        );
        notes.different(kind, strategy.get(field).place, what);
    }
    let subnet = strategy.get("ipv6Subnet");
    if let Some(bits) = subnet.text() {
        let is_set = plan.client.get("ipv6_prefix") == Some(&Value::Word(bits.to_owned()));
        match is_set {
            true => {
                let what = format!("client.ipv6_prefix: {bits}");
                notes.taken("ipv6Subnet", subnet.place, what);
            }
            false => {
                let what = format!(
                    "each IPv6 address counts on its own, not each /{bits}: write client.ipv6_prefix, which is for \
                     all limits by address"
                );
                notes.lost("ipv6Subnet", subnet.place, what);
            }
        }
    }
    Map::default().with("key", "ip")
}

/// How many bits of an IPv6 address count: those that all limits by address say, or all.
pub fn ipv6_prefix(middlewares: &Node) -> u64 {
    const ALL: u64 = 128;
    let mut said: Option<u64> = None;
    for (_, middleware) in middlewares.fields() {
        for (kind, node) in middleware.fields() {
            let criterion = node.get("sourceCriterion");
            let strategy = criterion.get("ipStrategy");
            let is_by_address = match &**kind {
                "rateLimit" => true,
                "inFlightReq" => !strategy.is_null(),
                _ => false,
            };
            let is_by_other =
                !criterion.get("requestHeaderName").is_null() || criterion.is("requestHost", false);
            if !is_by_address || is_by_other {
                continue;
            }
            let bits = strategy.number("ipv6Subnet").filter(|it| (1..=ALL).contains(it));
            let bits = bits.unwrap_or(ALL);
            if said.is_some_and(|it| it != bits) {
                return ALL;
            }
            said = Some(bits);
        }
    }
    said.unwrap_or(ALL)
}

/// The store that routers share.
fn redis(node: &Node, plan: &mut Plan, notes: &mut Notes) {
    let endpoints = node.get("endpoints").texts();
    let Some(first) = endpoints
        .first()
        .filter(|it| it.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:".contains(c)))
    else {
        return;
    };
    let scheme = if node.get("tls").is_null() { "redis" } else { "rediss" };
    let mut store = Map::default().with("url", format!("{scheme}://{first}"));
    if !node.str("password").is_empty() {
        store.put("password", plan.variable("redis_password", "the password of Redis"));
    }
    if plan.others.get("store").is_none() {
        plan.others.put("store", Map::default().with("redis", Value::from(store)));
    }
    notes.different(
        "redis",
        node.place,
        "store.redis; routers shared counters in Redis by the middleware",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        let all = ["60", "1s", "1m30s", "500ms", "1h"].map(|text| duration(text).unwrap());
        assert_eq!(all, ["60s", "1s", "90s", "500ms", "1h"]);
        assert_eq!(
            ["", "0", "x", "1", "1d"].map(duration),
            [None, None, None, Some("1s".to_owned()), None]
        );
        let all = ["1.5s", "0.25m", "1500us", "2h45.5m", "1.0000001s"].map(duration);
        let all = all.map(|it| it.unwrap_or_default());
        assert_eq!(all, ["1500ms", "15s", "", "9930s", ""]);
    }

    #[test]
    fn durations_in_milliseconds_are_rounded_up() {
        for (text, is) in [
            ("2", Some(2000)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("1.5s", Some(1500)),
            ("1ns", Some(1)),
            ("1500\u{b5}s", Some(2)),
            ("1h1m", Some(3_660_000)),
            ("-1s", None),
            ("", None),
            ("5 s", None),
            (".s", None),
            (".5s", Some(500)),
            ("+1s", Some(1000)),
            ("+", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(milliseconds(text), is, "{text}");
        }
    }
}

//! Random trees against a small model of the lookup and the counting, which shares no code with
//! the rules.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A node of the model.
#[derive(Clone, Debug)]
struct Plain {
    key: &'static str,
    value: &'static str,
    /// None: no limit. A limit without hits is unlimited.
    limit: Option<(Option<u32>, Unit)>,
    shadow: bool,
    quota: bool,
    share: bool,
    name: &'static str,
    replaces: &'static str,
    below: Vec<Plain>,
}

impl Plain {
    fn written(&self) -> String {
        if self.value.is_empty() { self.key.into() } else { format!("{}_{}", self.key, self.value) }
    }
}

/// Whether the text fits, letter by letter.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => fits(rest, text) || !text.is_empty() && fits(pattern, &text[1..]),
        ([p, rest @ ..], [t, more @ ..]) => p == t && fits(rest, more),
        _ => false,
    }
}

/// The node for the entries, and for each of them the text that counts instead of the value.
fn look<'m>(
    nodes: &'m [Plain],
    entries: &[(&str, &str)],
) -> Option<(&'m Plain, Vec<(String, bool)>)> {
    let ((key, value), rest) = entries.split_first()?;
    let full = format!("{key}_{value}");
    let (node, shares) = nodes
        .iter()
        .find(|node| node.written() == full)
        .map(|node| (node, false))
        .or_else(|| {
            let stars = |node: &&Plain| {
                node.written().contains('*') && fits(node.written().as_bytes(), full.as_bytes())
            };
            nodes.iter().find(stars).map(|node| (node, node.share))
        })
        .or_else(|| nodes.iter().find(|node| node.written() == *key).map(|node| (node, false)))?;
    let own = if shares { node.value } else { value };
    let mut texts = vec![(own.to_owned(), shares)];
    if rest.is_empty() {
        return Some((node, texts));
    }
    let (found, below) = look(&node.below, rest)?;
    texts.extend(below);
    Some((found, texts))
}

/// What the model says of a descriptor: code, limit, remainder.
type Told = (bool, Option<(u32, Unit)>, u32);

/// The model of a service with one domain.
struct Model {
    nodes: Vec<Plain>,
    counters: BTreeMap<String, u64>,
}

impl Model {
    fn ask(&mut self, asked: &[Asked<'_>], now_s: u64) -> (bool, Vec<Told>) {
        let found: Vec<_> = asked.iter().map(|(entries, ..)| look(&self.nodes, entries)).collect();
        let gone: Vec<&str> = asked
            .iter()
            .zip(&found)
            .filter(|((_, instead, _), _)| instead.is_none())
            .filter_map(|(_, found)| found.as_ref().map(|(node, _)| *node))
            .filter(|node| node.limit.is_some() && !node.replaces.is_empty())
            .map(|node| node.replaces)
            .collect();
        let mut told = Vec::new();
        let mut hard = false;
        let mut quotas = 0;
        let mut over_quotas = 0;
        for ((entries, instead, hits), found) in asked.iter().zip(&found) {
            let node = found.as_ref().map(|(node, _)| *node);
            let limit = match (instead, node.and_then(|node| node.limit)) {
                (Some((requests, unit)), _) => Some((*requests, *unit, false, false)),
                (None, Some((None, _))) => {
                    told.push((false, None, u32::MAX));
                    continue;
                }
                (None, Some((Some(requests), unit))) => node
                    .filter(|node| node.name.is_empty() || !gone.contains(&node.name))
                    .map(|node| (requests, unit, node.shadow, node.quota)),
                (None, None) => None,
            };
            let Some((requests, unit, shadow, quota)) = limit else {
                told.push((false, None, 0));
                continue;
            };
            let mut parts = Vec::new();
            for (index, (key, value)) in entries.iter().enumerate() {
                let texts = found.as_ref().filter(|_| instead.is_none()).map(|(_, texts)| texts);
                let text = texts.map_or((value.to_string(), false), |texts| texts[index].clone());
                parts.push((key.to_string(), text));
            }
            let length_s = unit.window().as_micros() / 1_000_000;
            let name = format!("{parts:?} {length_s} {}", now_s / length_s);
            let count = self.counters.entry(name).or_default();
            let is_over = if requests == 0 {
                true
            } else {
                match hits {
                    Hits::Add(hits) => *count += hits,
                    Hits::GiveBack(hits) => *count = count.saturating_sub(*hits),
                }
                *count > u64::from(requests)
            };
            let left = u64::from(requests).saturating_sub(*count);
            let left = if is_over { 0 } else { u32::try_from(left).unwrap() };
            let is_over = is_over && !shadow;
            quotas += usize::from(quota);
            over_quotas += usize::from(quota && is_over);
            hard |= is_over && !quota;
            told.push((is_over, Some((requests, unit)), left));
        }
        (hard || quotas > 0 && quotas == over_quotas, told)
    }
}

fn tree(nodes: &[Plain]) -> Level {
    let mut level = Level::default();
    for plain in nodes {
        let rule = plain.limit.map(|(requests, unit)| Rule {
            name: plain.name.into(),
            replaces: if plain.replaces.is_empty() { vec![] } else { vec![plain.replaces.into()] },
            shadow: plain.shadow,
            quota: plain.quota,
            ..Rule::new(requests.map_or(Amount::Unlimited, |it| Amount::PerUnit(it, unit)))
        });
        let node = Node {
            key: plain.key.into(),
            value: plain.value.into(),
            rule,
            share_threshold: plain.share,
            below: tree(&plain.below),
            ..Node::default()
        };
        level.add(node).unwrap();
    }
    level
}

/// Nodes of the same name are left out.
fn distinct(nodes: Vec<Plain>) -> Vec<Plain> {
    let mut kept: Vec<Plain> = Vec::new();
    for node in nodes {
        if !kept.iter().any(|other| other.written() == node.written()) {
            kept.push(node);
        }
    }
    kept
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["a", "b", "a_x"][..])
}

fn node() -> impl Strategy<Value = Plain> {
    let value = prop::sample::select(&["", "", "x", "y", "x*", "*y", "x*y*", "x_z"][..]);
    let requests = prop_oneof![8 => (1..6_u32).prop_map(Some), 1 => Just(Some(0)), 1 => Just(None)];
    let unit = prop::sample::select(&[Unit::Second, Unit::Minute, Unit::Week][..]);
    let limit = prop::option::weighted(0.8, (requests, unit));
    let name = prop::sample::select(&["", "", "m", "n"][..]);
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.2), any::<bool>());
    let leaf = (key(), value, limit, flags, name.clone(), name);
    let leaf = leaf.prop_map(|(key, value, limit, (shadow, quota, share), name, replaces)| Plain {
        key,
        value,
        limit,
        shadow,
        quota,
        share: share && value.contains('*'),
        name,
        replaces: if replaces == name { "" } else { replaces },
        below: Vec::new(),
    });
    leaf.prop_recursive(2, 24, 5, |below| {
        (below.clone(), vec(below, 0..6))
            .prop_map(|(node, below)| Plain { below: distinct(below), ..node })
    })
}

type Descriptors = Vec<(Vec<(&'static str, &'static str)>, Option<(u32, Unit)>, Hits)>;

fn descriptors() -> impl Strategy<Value = Descriptors> {
    let value = prop::sample::select(&["", "x", "y", "xy", "x*", "xay", "x_z", "q"][..]);
    let entries = vec((key(), value), 1..4);
    let unit = prop::sample::select(&[Unit::Second, Unit::Minute][..]);
    let instead = prop::option::weighted(0.1, (0..6_u32, unit));
    let hits = prop_oneof![
        6 => Just(Hits::Add(1)),
        2 => (0..4_u64).prop_map(Hits::Add),
        1 => (0..4_u64).prop_map(Hits::GiveBack),
    ];
    vec((entries, instead, hits), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_trees_answer_as_the_model(
        nodes in vec(node(), 1..8).prop_map(distinct),
        requests in vec((descriptors(), 0..700_u64), 1..24),
    ) {
        let mut service = Service::new(Domains::new([("d".into(), tree(&nodes))]));
        let mut model = Model { nodes, counters: BTreeMap::new() };
        let mut now_ms = 1_790_000_000_000;
        for (descriptors, later_ms) in requests {
            now_ms += later_ms;
            service.now = Timestamp::from_micros(now_ms * 1000);
            let asked: Vec<Asked<'_>> =
                descriptors.iter().map(|(entries, instead, hits)| (&entries[..], *instead, *hits)).collect();
            let expected = model.ask(&asked, now_ms / 1000);
            let answer = service.ask("d", &asked, |_, answer| {
                let told = |it: &Status<'_>| {
                    let limit = it.limit.map(|(requests, unit, _)| (requests, unit.unwrap()));
                    (it.is_over, limit, it.remaining)
                };
                (answer.is_over, answer.statuses.iter().map(told).collect::<Vec<_>>())
            });
            prop_assert_eq!(answer, expected, "{:?}", asked);
        }
    }
}

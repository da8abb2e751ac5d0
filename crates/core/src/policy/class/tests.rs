//! The class of a client against a search that reads as the rules are written.

use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::policy::tests::{Case, policy, with};
use crate::policy::{
    ClassTable, ClientClass, Exempt, Exemption, KeyFor, MAX_CLASSES, MAX_SEARCHED, Policy,
};

fn class(name: &str, user_agent: &[&str], ips: &[&str]) -> ClientClass {
    ClientClass {
        name: name.into(),
        user_agent: user_agent.iter().map(|text| (*text).to_owned()).collect(),
        ips: ips.iter().map(|block| block.parse().expect("a network")).collect(),
        asns: Vec::new(),
        agents: Vec::new(),
    }
}

fn case(classes: &[ClientClass], fields: &[(&'static str, &str)]) -> Case {
    let mut case = with(fields);
    case.client.classes = Some(Arc::new(ClassTable::new(classes)));
    case
}

fn class_of(case: &Case) -> Result<String, Lack> {
    case.ask(&policy("ip"), |subject| subject.class_or_lack().map(str::to_owned))
}

#[test]
fn the_first_class_whose_conditions_are_all_met_is_that_of_the_client() {
    let classes = [
        class("own", &["ExampleBot/", "example-crawler"], &["192.0.2.0/28"]),
        class("false", &["examplebot"], &[]),
        class("office", &[], &["198.51.100.0/24", "192.0.2.1/32"]),
    ];
    for (agent, peer, expected) in [
        (Some("Mozilla/5.0 (compatible; examplebot/2.1)"), "192.0.2.1", Ok("own")),
        (Some("EXAMPLE-CRAWLER"), "192.0.2.15", Ok("own")),
        (Some("ExampleBot"), "192.0.2.1", Ok("false")),
        (Some("ExampleBot/2"), "192.0.2.16", Ok("false")),
        (Some("curl/8"), "192.0.2.1", Ok("office")),
        (None, "198.51.100.7", Ok("office")),
        (None, "203.0.113.7", Err(Lack::Absent)),
        (Some(""), "203.0.113.7", Err(Lack::Absent)),
        (Some("curl/8"), "203.0.113.7", Err(Lack::Absent)),
    ] {
        let fields: Vec<_> = agent.iter().map(|agent| ("user-agent", *agent)).collect();
        let case = Case { peer: peer.parse().unwrap(), ..case(&classes, &fields) };
        assert_eq!(class_of(&case), expected.map(str::to_owned), "{agent:?} {peer}");
    }
    assert_eq!(class_of(&with(&[("user-agent", "ExampleBot")])), Err(Lack::Absent), "no classes");
}

#[test]
fn two_values_of_the_field_are_ambiguous_only_where_they_matter() {
    let twice = [("user-agent", "good-bot"), ("user-agent", "bad-bot")];
    let texts = [class("good", &["good-bot"], &[])];
    assert_eq!(class_of(&case(&texts, &twice)), Err(Lack::Ambiguous));
    let elsewhere = [class("good", &["good-bot"], &["198.51.100.0/24"])];
    assert_eq!(class_of(&case(&elsewhere, &twice)), Err(Lack::Absent));
    let before = [class("near", &[], &["192.0.2.0/24"]), class("good", &["good-bot"], &[])];
    assert_eq!(class_of(&case(&before, &twice)), Ok("near".to_owned()));
}

#[test]
fn a_class_is_a_key_of_its_own() {
    let key_of = |agent: &str, word: &str| {
        let classes = [class("bot", &["bot"], &[]), class("bot", &["crawler"], &[])];
        let case = case(&classes, &[("user-agent", agent), ("x-class", "bot")]);
        case.key(&policy(word))
    };
    let bot = key_of("some bot", "class");
    assert_eq!(bot, key_of("a crawler", "class"), "both entries have one name");
    assert_ne!(bot, key_of("some bot", "header:x-class"));
    assert_eq!(key_of("curl", "class"), KeyFor::Denied, "it is in no class");
}

#[test]
fn a_policy_exempts_a_class() {
    let classes = [class("probe", &["probe/"], &["192.0.2.0/24"])];
    let exempt = Exempt { classes: vec!["probe".into()], ..Exempt::default() };
    let exempting = Policy { exempt, ..policy("ip") };
    let of = |agent| case(&classes, &[("user-agent", agent)]).key(&exempting);
    assert_eq!(of("Probe/1"), KeyFor::Exempt(Exemption::Class));
    assert!(matches!(of("curl/8"), KeyFor::Key(_)));
}

#[test]
fn only_the_first_bytes_are_searched_and_only_so_many_classes_are_used() {
    let long = |before: usize| format!("{}needle", "x".repeat(before));
    let classes = [class("found", &["needle"], &[])];
    let of = |before| class_of(&case(&classes, &[("user-agent", &long(before))]));
    assert_eq!(of(MAX_SEARCHED - 6), Ok("found".to_owned()));
    assert_eq!(of(MAX_SEARCHED - 5), Err(Lack::Absent));
    let many: Vec<_> = (0..=MAX_CLASSES).map(|it| class(&format!("c{it}"), &["b"], &[])).collect();
    assert_eq!(ClassTable::new(&many).names().count(), MAX_CLASSES);
}

#[test]
fn a_class_that_needs_only_a_text_can_be_chosen() {
    let table = ClassTable::new(&[
        class("bot", &["bot"], &["192.0.2.0/24"]),
        class("bot", &["crawler"], &[]),
        class("own", &["own"], &["192.0.2.0/24"]),
    ]);
    assert!(table.can_be_chosen("bot") && !table.can_be_chosen("own"));
    assert!(!table.can_be_chosen("other") && table.has_texts() && !table.has_asns());
}

/// The rules, read one after the other.
fn expected(classes: &[ClientClass], agent: &str, address: IpAddr) -> Option<String> {
    let agent = agent.to_ascii_lowercase();
    let matches = |class: &&ClientClass| {
        let has = |text: &String| agent.contains(&text.to_ascii_lowercase());
        (class.user_agent.is_empty() || class.user_agent.iter().any(has))
            && (class.ips.is_empty() || class.ips.iter().any(|it| it.contains(&address)))
    };
    classes.iter().find(matches).map(|class| class.name.to_string())
}

fn some_class() -> impl Strategy<Value = ClientClass> {
    let texts = prop::collection::vec("[a-cA-C]{1,3}", 0..3);
    let ips = prop::sample::subsequence(vec!["192.0.2.0/25", "192.0.2.1/32", "10.0.0.0/8"], 0..3);
    ("[a-z]{1,4}", texts, ips)
        .prop_filter("it has a condition", |(_, texts, ips)| !texts.is_empty() || !ips.is_empty())
        .prop_map(|(name, texts, ips)| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            class(&name, &texts, &ips)
        })
}

proptest! {
    #[test]
    fn the_table_agrees_with_the_rules(
        classes in prop::collection::vec(some_class(), 0..12),
        agent in "[a-cA-C ]{1,12}",
        peer in prop::sample::select(vec!["192.0.2.1", "192.0.2.200", "10.1.1.1"]),
    ) {
        // A field has no blanks around its value.
        let agent = agent.trim();
        prop_assume!(!agent.is_empty());
        let peer: IpAddr = peer.parse().unwrap();
        let mut case = Case { peer, ..case(&classes, &[("user-agent", agent)]) };
        case.client.trusted_proxies.clear();
        prop_assert_eq!(class_of(&case).ok(), expected(&classes, agent, peer));
    }
}

//! The documented examples of envoyproxy/ratelimit, and what follows from its source.

use super::*;

const OVER: bool = true;
const OK: bool = false;

/// Example 2.
#[test]
fn a_value_that_is_left_out_stands_for_any_and_each_has_its_counter() {
    let mut service = service(
        "messaging",
        [
            above("message_type", "marketing", [node("to_number", "", 5, Unit::Day)]),
            node("to_number", "", 100, Unit::Day),
        ],
    );
    let number = |number| [("message_type", "marketing"), ("to_number", number)];
    let codes = service.over("messaging", &number("2061111111"), 6);
    assert_eq!(codes, [OK, OK, OK, OK, OK, OVER]);
    assert_eq!(service.over("messaging", &number("2062222222"), 1), [OK]);
    let both = number("2061111111");
    let asked = [(&both[..], None, Hits::Add(1)), (&both[1..], None, Hits::Add(1))];
    service.ask("messaging", &asked, |_, answer| {
        assert!(answer.is_over && answer.statuses[0].is_over && !answer.statuses[1].is_over);
        assert_eq!(answer.statuses[1].remaining, 99);
        assert_eq!(answer.statuses[1].limit, Some((100, Some(Unit::Day), "")));
        // 1790000000 s are 51200 s into their day.
        let left = Span::from_micros((86_400 - 51_200) * 1_000_000 - 500_000);
        assert_eq!(answer.statuses[0].reset, Some(left));
    });
}

/// Example 3.
#[test]
fn the_value_goes_before_the_key_alone_and_zero_admits_nothing() {
    let mut service = service(
        "edge",
        [
            node("remote_address", "", 10, Unit::Second),
            node("remote_address", "50.0.0.5", 0, Unit::Second),
        ],
    );
    assert_eq!(service.over("edge", &[("remote_address", "50.0.0.1")], 10), [OK; 10]);
    let asked: [Asked<'_>; 1] = [(&[("remote_address", "50.0.0.5")], None, Hits::Add(0))];
    service.ask("edge", &asked, |plan, answer| {
        assert!(answer.is_over && plan.slots.is_empty());
        assert_eq!(answer.statuses[0].limit, Some((0, Some(Unit::Second), "")));
        assert_eq!(answer.statuses[0].reset, Some(Span::from_millis(500)));
    });
}

/// Example 4.
#[test]
fn a_limit_holds_for_descriptors_of_its_depth_only() {
    let two = [("key", "value"), ("subkey", "subvalue")];
    let mut shallow = service("example4", [node("key", "value", 0, Unit::Second)]);
    assert_eq!(shallow.over("example4", &two, 1), [OK]);
    assert_eq!(shallow.over("example4", &two[..1], 1), [OVER]);
    let below = above("key", "value", [node("subkey", "", 0, Unit::Second)]);
    let mut deep = service("example4", [below]);
    assert_eq!(deep.over("example4", &two, 1), [OVER]);
    assert_eq!(deep.over("example4", &two[..1], 1), [OK]);
    assert_eq!(deep.over("another", &two, 1), [OK]);
}

/// Example 5.
#[test]
fn an_unlimited_descriptor_is_told_the_largest_remainder() {
    let rule = Some(Rule::new(Amount::Unlimited));
    let mut service = service(
        "internal",
        [
            Node { key: "ldap".into(), rule, ..Node::default() },
            node("azure", "", 100, Unit::Minute),
        ],
    );
    let asked: [Asked<'_>; 2] =
        [(&[("ldap", "x")], None, Hits::Add(1)), (&[("unknown", "x")], None, Hits::Add(1))];
    service.ask("internal", &asked, |plan, answer| {
        assert!(!answer.is_over && plan.slots.is_empty());
        assert_eq!((answer.statuses[0].remaining, &answer.statuses[0].limit), (u32::MAX, &None));
        assert_eq!((answer.statuses[1].remaining, &answer.statuses[1].limit), (0, &None));
    });
}

/// Example 6.
#[test]
fn a_shadow_counts_and_never_refuses() {
    let mut shadow = node("user", "user-a", 1, Unit::Second);
    shadow.rule.as_mut().unwrap().shadow = true;
    let mut service = service(
        "example6",
        [above("service", "", [shadow, node("user", "user-b", 1, Unit::Second)])],
    );
    let user = |user| [("service", "auth-service"), ("user", user)];
    assert_eq!(service.over("example6", &user("user-a"), 2), [OK, OK]);
    assert_eq!(service.over("example6", &user("user-b"), 2), [OK, OVER]);
    let asked: [Asked<'_>; 1] = [(&user("user-a"), None, Hits::Add(3))];
    service.ask("example6", &asked, |_, answer| {
        let tally = answer.tallies[0].unwrap();
        assert_eq!((tally.over, tally.shadow, tally.total), (3, 3, 3));
        assert_eq!(answer.statuses[0].remaining, 0);
    });
    // A limit that a request brings along is no shadow.
    let asked: [Asked<'_>; 1] = [(&user("user-a"), Some((4, Unit::Second)), Hits::Add(0))];
    assert_eq!(service.ask("example6", &asked, |_, answer| answer.is_over), OVER);
    let global = Switches { shadow: true, ..Switches::default() };
    service.switches = global;
    let asked: [Asked<'_>; 1] = [(&user("user-b"), None, Hits::Add(1))];
    service.ask("example6", &asked, |_, answer| {
        assert!(!answer.is_over && answer.is_shadowed && answer.statuses[0].is_over);
    });
}

/// Example 7.
#[test]
fn a_limit_replaces_others_by_name() {
    let mut one = node("user", "bkthomps", 5, Unit::Second);
    let mut two = node("user", "bkthomps", 10, Unit::Second);
    one.rule.as_mut().unwrap().name = "specific_limit".into();
    two.rule.as_mut().unwrap().replaces = vec!["specific_limit".into()];
    let nodes = [above("key_1", "value_1", [one]), above("key_2", "value_2", [two])];
    let mut service = service("example7", nodes);
    let one = [("key_1", "value_1"), ("user", "bkthomps")];
    let two = [("key_2", "value_2"), ("user", "bkthomps")];
    let asked: [Asked<'_>; 2] = [(&one, None, Hits::Add(1)), (&two, None, Hits::Add(1))];
    for hit in 0..11 {
        let over = service.ask("example7", &asked, |plan, answer| {
            assert!(matches!(plan.matched[0], Matched::None));
            answer.is_over
        });
        assert_eq!(over, hit == 10);
    }
    // The replaced limit was not changed.
    assert_eq!(service.over("example7", &one, 6), [OK, OK, OK, OK, OK, OVER]);
}

/// Example 11.
#[test]
fn values_of_a_wildcard_share_a_threshold_if_they_are_told_to() {
    let shared = Node { share_threshold: true, ..node("files", "files/*", 10, Unit::Hour) };
    let alone = node("no_share", "files/*", 10, Unit::Hour);
    let mut service = service("example11", [shared, alone]);
    assert_eq!(service.over("example11", &[("files", "files/a.pdf")], 5), [OK; 5]);
    assert_eq!(service.over("example11", &[("files", "files/b.csv")], 5), [OK; 5]);
    assert_eq!(service.over("example11", &[("files", "files/c.txt")], 1), [OVER]);
    // The value that is written like the pattern has a counter of its own.
    assert_eq!(service.over("example11", &[("files", "files/*")], 1), [OK]);
    assert_eq!(service.over("example11", &[("no_share", "files/a.pdf")], 10), [OK; 10]);
    assert_eq!(service.over("example11", &[("no_share", "files/b.csv")], 1), [OK]);
}

#[test]
fn a_request_is_over_its_quotas_only_together() {
    let quota = |value, requests| {
        let mut node = node("service", value, requests, Unit::Minute);
        node.rule.as_mut().unwrap().quota = true;
        node
    };
    let mut service =
        service("q", [quota("1", 1), quota("2", 2), node("plain", "", 3, Unit::Minute)]);
    let one = [("service", "1")];
    let two = [("service", "2")];
    let plain = [("plain", "")];
    let asked: [Asked<'_>; 3] =
        [(&one, None, Hits::Add(1)), (&two, None, Hits::Add(1)), (&plain, None, Hits::Add(1))];
    let passed: Vec<_> = (0..4)
        .map(|_| service.ask("q", &asked, |_, it| (it.is_over, it.passed.to_vec(), it.closest)))
        .collect();
    assert_eq!(passed[0], (OK, vec![0, 1, 2], Some(0)));
    assert_eq!(passed[1], (OK, vec![1, 2], Some(0)));
    assert_eq!(passed[2], (OVER, vec![2], Some(0)));
    assert_eq!(passed[3], (OVER, vec![], Some(2)));
}

#[test]
fn one_counter_twice_has_the_codes_of_a_sequence() {
    let mut service = service("d", [node("k", "", 5, Unit::Minute)]);
    let entries = [("k", "v")];
    let asked: [Asked<'_>; 4] = [
        (&entries, None, Hits::Add(0)),
        (&entries, None, Hits::Add(3)),
        (&entries, None, Hits::Add(2)),
        (&entries, None, Hits::Add(1)),
    ];
    let codes = |service: &mut Service| {
        service.ask("d", &asked, |plan, answer| {
            assert_eq!(plan.slots.iter().map(|it| it.round).collect::<Vec<_>>(), [0, 1, 2, 3]);
            answer.statuses.iter().map(|it| (it.is_over, it.remaining)).collect::<Vec<_>>()
        })
    };
    assert_eq!(codes(&mut service), [(OK, 5), (OK, 2), (OK, 0), (OVER, 0)]);
    assert_eq!(codes(&mut service), [(OVER, 0); 4]);
    let give: [Asked<'_>; 2] =
        [(&entries, None, Hits::GiveBack(8)), (&entries, None, Hits::Add(1))];
    service.ask("d", &give, |plan, answer| {
        assert_eq!(plan.slots.iter().map(|it| it.round).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(answer.statuses[0].remaining, 1);
        assert_eq!(answer.statuses[1].remaining, 0);
    });
}

#[test]
fn a_request_that_is_judged_as_a_whole_charges_each_counter_once() {
    let mut service = service("d", [node("k", "", 5, Unit::Minute)]);
    let hit: Asked<'_> = (&[("k", "v")], None, Hits::Add(1));
    let rounds = |plan: &Plan<'_>, _: &Answer<'_>| {
        plan.slots.iter().map(|it| (it.round, it.descriptors.len())).collect::<Vec<_>>()
    };
    let alone = service.ask("d", &[hit; 128], rounds);
    assert_eq!(alone[..15].iter().filter(|it| it.1 == 1).count(), 15);
    assert_eq!(alone[15..], [(15, 113)]);
    service.switches.together = true;
    assert_eq!(service.ask("d", &[hit; 128], rounds), [(0, 128)]);
}

/// Regression: a limit that refuses nothing prevented that the others were counted.
#[test]
fn only_a_limit_that_refuses_by_itself_binds() {
    let rule = |key, change: fn(&mut Rule)| {
        let mut node = node(key, "", 5, Unit::Minute);
        change(node.rule.as_mut().unwrap());
        node
    };
    let mut service = service(
        "d",
        [
            rule("hard", |_| ()),
            rule("shadow", |rule| rule.shadow = true),
            rule("quota", |rule| rule.quota = true),
        ],
    );
    let together = Switches { together: true, ..Switches::default() };
    let modes = |service: &mut Service, asked: &[Asked<'_>]| {
        service.ask("d", asked, |plan, _| {
            plan.slots.iter().map(|it| it.policy.mode).collect::<Vec<_>>()
        })
    };
    let hits = ["hard", "shadow", "quota"].map(|key| [(key, "v")]);
    let asked: Vec<Asked<'_>> = hits.iter().map(|it| (&it[..], None, Hits::Add(1))).collect();
    service.switches = together;
    assert_eq!(modes(&mut service, &asked), [Mode::Enforce, Mode::Shadow, Mode::Shadow]);
    for switches in [Switches { shadow: true, ..together }, Switches { quota: true, ..together }] {
        service.switches = switches;
        assert_eq!(modes(&mut service, &asked), [Mode::Shadow; 3]);
    }
    // A limit that the request brings along refuses, also on the counter of one that does not.
    service.switches = together;
    let own: Asked<'_> = (&hits[1], Some((5, Unit::Minute)), Hits::Add(1));
    assert_eq!(modes(&mut service, &[asked[1], own]), [Mode::Enforce]);
    assert_eq!(modes(&mut service, &[own, asked[1]]), [Mode::Enforce]);
}

/// Regression: hits above a limit were told a wait until the window ends. Regression: a counter that
/// was not asked was told to be unused.
#[test]
fn hits_that_never_fit_and_counters_that_were_not_asked_are_known() {
    let service = service("d", [node("k", "", 5, Unit::Minute), node("none", "", 0, Unit::Minute)]);
    let Service { ref domains, switches, now, .. } = service;
    let rules = Rules { domains, switches, secret: Secret::from_bytes([7; 16]) };
    let asked: [Asked<'_>; 2] =
        [(&[("k", "v")], None, Hits::Add(6)), (&[("none", "v")], None, Hits::Add(1))];
    let plan = rules.plan("d", &asked.iter().map(descriptor).collect::<Vec<_>>());
    let algorithm = &plan.slots[0].policy.algorithm;
    let verdict = |hits| algorithm.apply(None, Op::Take(hits), now).1;
    let told = |counted| {
        let answer = answer(&plan, &[counted], switches, now);
        let never = answer.statuses.iter().map(|it| it.never_fits).collect::<Vec<_>>();
        (never, answer.statuses[0].clone(), answer.tallies[0], answer.closest)
    };
    let (never, status, ..) = told(Counted::Judged(verdict(6)));
    assert_eq!((never, status.is_over), (vec![true, true], OVER));
    // 1790000000.5 s are 20.5 s into their minute.
    assert_eq!(status.reset, Some(Span::from_millis(39_500)));
    assert_eq!(told(Counted::Judged(verdict(5))).0, [false, true]);
    let (never, status, tally, closest) = told(Counted::Unasked);
    assert_eq!((never, status.is_over, status.limit), (vec![false, true], OK, None));
    assert_eq!((status.reset, tally, closest), (None, None, Some(1)));
}

/// Examples 8, 10 and 11.
#[test]
fn metrics_have_the_values_that_the_rules_name() {
    let by_value = |node: Node| Node { value_to_metric: true, ..node };
    let mut detailed = node("key1", "", 10, Unit::Minute);
    detailed.rule.as_mut().unwrap().detailed_metric = true;
    let route = by_value(above("route", "", [by_value(node("http_method", "", 1, Unit::Day))]));
    let action = by_value(above("action", "read*", [node("resource", "", 1, Unit::Day)]));
    let plain = above("plain", "", [node("below", "x*", 1, Unit::Day)]);
    let shared = Node { share_threshold: true, ..by_value(node("api", "v*", 1, Unit::Day)) };
    let mut service = service("d", [detailed, route, action, plain, shared]);
    type Labels = (&'static str, Option<&'static str>);
    let cases: [(&[(&str, &str)], Labels); 5] = [
        (&[("key1", "unspecified")], ("key1_unspecified", None)),
        (&[("route", "api"), ("http_method", "GET")], ("route_api", Some("http_method_GET"))),
        (&[("action", "readfile"), ("resource", "x")], ("action_readfile", Some("resource"))),
        (&[("plain", "x"), ("below", "xyz")], ("plain", Some("below_x*"))),
        (&[("api", "v1")], ("api_v*", None)),
    ];
    for (entries, expected) in cases {
        service.ask("d", &[(entries, None, Hits::Add(1))], |plan, _| {
            let Matched::Limited(limited) = &plan.matched[0] else { panic!("{entries:?}") };
            let Series { key1, key2 } = &*limited.series;
            assert_eq!((&**key1, key2.as_deref()), expected);
        });
    }
}

/// Their names are the same in envoyproxy/ratelimit, and so are their counters.
#[test]
fn descriptors_that_are_written_alike_have_different_counters() {
    let nodes = [node("a", "", 1, Unit::Day), node("a_b", "", 1, Unit::Day)];
    let mut service = service("d", nodes);
    assert_eq!(service.over("d", &[("a", "b_c")], 2), [OK, OVER]);
    assert_eq!(service.over("d", &[("a_b", "c")], 2), [OK, OVER]);
    let nested = [above("x", "", [node("y", "", 1, Unit::Day)]), node("x_1_y", "", 1, Unit::Day)];
    service.domains = Domains::new([("d".into(), level(nested))]);
    assert_eq!(service.over("d", &[("x", "1"), ("y", "2")], 1), [OK]);
    assert_eq!(service.over("d", &[("x_1_y", "2")], 1), [OK]);
}

#[test]
fn an_override_counts_on_the_same_counter_and_needs_a_known_domain() {
    let mut service = service("d", [node("k", "", 5, Unit::Minute)]);
    let entries = [("k", "v")];
    assert_eq!(service.over("d", &entries, 4), [OK; 4]);
    let with = |requests| [(&entries[..], Some((requests, Unit::Minute)), Hits::Add(1))];
    assert_eq!(service.ask("d", &with(6), |_, it| (it.is_over, it.statuses[0].remaining)), (OK, 1));
    assert_eq!(service.ask("d", &with(5), |_, it| it.is_over), OVER);
    assert_eq!(service.ask("d", &with(0), |_, it| it.is_over), OVER);
    assert_eq!(service.ask("unknown", &with(0), |_, it| it.is_over), OK);
    let other: [Asked<'_>; 1] = [(&[("other", "")], Some((1, Unit::Minute)), Hits::Add(1))];
    assert_eq!(service.ask("d", &other, |_, it| it.is_over), OK);
    assert_eq!(service.ask("d", &other, |_, it| it.is_over), OVER);
    let both = [with(7)[0], with(8)[0]];
    service.ask("d", &both, |plan, answer| {
        assert_eq!(plan.slots.iter().map(|it| it.round).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((answer.statuses[0].remaining, answer.statuses[1].remaining), (0, 0));
    });
}

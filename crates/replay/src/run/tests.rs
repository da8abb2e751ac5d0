//! Suggested limits, and the work that a log of some length is.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate_core::algorithm::{
    Algorithm, Concurrency, FixedWindow, Quota, SlidingLog, SlidingWindow,
};
use tollgate_core::policy::{
    AccessEffect, AccessList, AccessMode, AccessRule, AuthMethod, ClientSettings, DenialAnswer,
    KeyExpr, MissingKey, Policy,
};
use tollgate_core::routes::Route;
use tollgate_core::time::Span;

use super::*;

fn setup() -> Setup {
    let quota = Quota::new(100, Span::from_secs(60)).expect("a quota");
    let algorithms = [
        Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        Algorithm::FixedWindow(FixedWindow::new(quota)),
        Algorithm::SlidingLog(SlidingLog::new(quota).expect("a limit")),
    ];
    let keys = [KeyExpr::Ip, KeyExpr::Path, KeyExpr::Ip];
    let policies = (algorithms.into_iter().zip(keys).zip(["a", "b", "c"]))
        .map(|((algorithm, key), name)| Policy::new(name, key, algorithm));
    setup_of(policies.collect())
}

/// One route with these policies.
fn setup_of(policies: Vec<Policy>) -> Setup {
    let policies: Vec<Arc<Policy>> = policies.into_iter().map(Arc::new).collect();
    let route = Route::for_all(policies.clone());
    let name = String::new();
    let client = ClientSettings::default();
    let overflowing = Vec::new();
    Setup { name, routes: vec![route], policies, client, overflowing, max_keys: 10_000 }
}

/// A hundred in a minute for each address.
fn by_address() -> Policy {
    let quota = Quota::new(100, Span::from_secs(60)).expect("a quota");
    Policy::new("by-address", KeyExpr::Ip, Algorithm::FixedWindow(FixedWindow::new(quota)))
}

/// The suggestions for a log.
struct Suggested {
    suggestions: serde_json::Value,
    /// How many decisions their trials have made.
    decisions: u64,
    /// What was done in both readings: lines, decisions, and slots of tables that were read.
    work: u64,
    /// How many keys each trial had room for.
    rooms: Vec<usize>,
}

fn suggested(log: &str, trying: Trying) -> Suggested {
    suggested_for(setup(), log, trying)
}

fn suggested_for(setup: Setup, log: &str, trying: Trying) -> Suggested {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    std::fs::write(&path, log).expect("a file");
    let inputs = vec![Input::File(path)];
    let job = Job { inputs, format: None, host: None, setup, against: None, suggest: true };
    let form = Recognised::bare(Format::named("combined").expect("a format"));
    let reading = Reading { inputs: &job.inputs, form: &form, host: None, setup: &job.setup };
    let source = Merged::open(&job.inputs).expect("a log");
    let mut found = pass(source, reading, lanes(&job), &mut |_, _| {}).expect("a log");
    let peaks = found.lanes[0].trials[0].counts.peaks.take().expect("peaks");
    let others = others(&found);
    let probes = peaks.probes();
    let (suggestions, second) =
        suggest_counted(&job, reading, peaks, others, trying, &mut |_, _| {}).expect("a log");
    let second = second.expect("a second reading");
    let decisions = |found: &Found| -> u64 {
        found.lanes[0].trials.iter().map(|trial| trial.counts.totals.judged).sum()
    };
    let exceeding = &second.lanes[0].exceeding;
    let work = [&found, &second].map(|it| it.facts.lines + decisions(it)).iter().sum::<u64>()
        + probes
        + exceeding.as_ref().map_or(0, Exceeding::probes);
    Suggested {
        suggestions: serde_json::to_value(&suggestions).expect("JSON"),
        decisions: decisions(&second),
        work,
        rooms: second.lanes[0].trials.iter().map(|trial| trial.room()).collect(),
    }
}

fn log(requests: impl IntoIterator<Item = (u64, u64, u64)>) -> String {
    let mut log = String::new();
    let mut second = 0;
    for (gap, client, path) in requests {
        second += gap;
        let hour = second / 3600 % 24;
        let minute = second / 60 % 60;
        let rest = second % 60;
        let _ = writeln!(
            log,
            "10.0.{}.{} - - [21/Nov/2026:{hour:02}:{minute:02}:{rest:02} +0000] \"GET /{path} HTTP/1.1\" 200 1",
            client / 250,
            client % 250
        );
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn limits_are_tried_only_where_they_can_refuse(
        requests in prop::collection::vec((0..40_u64, 0..9_u64, 0..40_u64), 1..400),
        burst in 1..200_usize,
        preflights in any::<bool>(),
    ) {
        let burst = std::iter::repeat_n((0, 77, 3), burst);
        let mut log = log(requests.into_iter().chain(burst));
        if preflights {
            log = log.replace("GET /3", "OPTIONS /3");
        }
        let [some, all] = [Trying::Needed, Trying::All].map(|it| suggested(&log, it).suggestions);
        prop_assert_eq!(some, all);
    }
}

/// What the proposed limit of the first policy for a minute refuses.
fn refused_in_a_minute(suggested: &Suggested) -> &serde_json::Value {
    &suggested.suggestions["policies"][0]["windows"][2]["trial"]["refused"]
}

/// Fifteen clients of 20,000 send three requests, at the begin, in the middle and at the end.
fn few_of_many() -> String {
    let few = |gap| (0..15).map(move |client| (gap * u64::from(client == 0), client, 1));
    let others = |range: std::ops::Range<u64>| range.map(|client| (0, client, 1));
    let parts = few(0).chain(others(15..10_000)).chain(few(10)).chain(others(10_000..20_000));
    log(parts.chain(few(10)))
}

/// The requests were counted in a store for the keys of a few clients, which forgot their
/// counters, and the report said that the limit would refuse none.
#[test]
fn a_trial_has_room_for_all_keys_that_it_counts() {
    let quota = Quota::new(100, Span::from_secs(60)).expect("a quota");
    let fixed = || Algorithm::FixedWindow(FixedWindow::new(quota));
    let skipping = Policy {
        missing_key: MissingKey::Skip,
        ..Policy::new("by-team", "header:x-team".parse().expect("a key"), fixed())
    };
    let unlimited = Policy::unlimited("all", KeyExpr::Ip);
    let mut listed = setup_of(vec![by_address()]);
    let puts = AccessRule::new(AccessEffect::Deny).with_methods(vec![http::Method::PUT]);
    let enforce = AccessMode::Enforce;
    let answer = DenialAnswer::default();
    let list = AccessList::new("list".into(), vec![puts], AccessEffect::Allow, enforce, answer);
    listed.routes[0].access = vec![Arc::new(list)];
    let setups = [
        setup_of(vec![by_address()]),
        setup_of(vec![by_address(), skipping]),
        setup_of(vec![by_address(), unlimited]),
        listed,
    ];
    for setup in setups {
        let mut log = few_of_many();
        if !setup.routes[0].access.is_empty() {
            log += &few_of_many().replace("GET", "PUT");
        }
        let suggested = suggested_for(Setup { max_keys: 100_000, ..setup }, &log, Trying::Needed);
        assert_eq!(*refused_in_a_minute(&suggested), 15);
        assert!(suggested.rooms.iter().all(|room| *room < 2000), "{:?}", suggested.rooms);
        assert!(suggested.decisions < 1000, "{}", suggested.decisions);
    }
}

/// A policy without a suggestion refused requests in the trials, and the others did not count
/// them.
#[test]
fn a_limit_is_tried_alone() {
    let log = log((0..20).map(|_| (0, 1, 1)).chain((0..1200).map(|client| (0, 10 + client, 1))));
    let log = log.replace(" 200 1\n", " 200 1 5.0\n");
    let jobs = Algorithm::Concurrency(Concurrency::new(1).expect("a limit"));
    for others in [vec![], vec![Policy::new("jobs", KeyExpr::Path, jobs)]] {
        let policies = others.into_iter().chain([by_address()]).collect();
        let suggested = suggested_for(setup_of(policies), &log, Trying::Needed);
        assert_eq!(*refused_in_a_minute(&suggested), 18);
    }
}

#[test]
fn a_note_tells_of_counters_that_the_trials_have_forgotten() {
    let jobs = Algorithm::Concurrency(Concurrency::new(1).expect("a limit"));
    let jobs = Policy::new("jobs", KeyExpr::Path, jobs);
    let setup = Setup { max_keys: 100, ..setup_of(vec![by_address(), jobs]) };
    let report = replay_text(&few_of_many(), setup, true);
    let told = |note: &String| note.contains("counters of the suggested limits were forgotten");
    assert!(report.notes.iter().any(told), "{:?}", report.notes);
}

/// The report of a log with this text.
fn replay_text(log: &str, setup: Setup, suggest: bool) -> Report {
    replay_job(log, setup, |job| job.suggest = suggest)
}

/// The report of a job that `change` changes, or why there is none.
fn replay_job(log: &str, setup: Setup, change: impl FnOnce(&mut Job)) -> Report {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    std::fs::write(&path, log).expect("a file");
    let inputs = vec![Input::File(path)];
    let mut job = Job { inputs, format: None, host: None, setup, against: None, suggest: false };
    change(&mut job);
    replay(&job, &mut |_, _| {}).expect("a report")
}

/// What the report says of requests.
fn totals(report: &Report) -> [u64; 2] {
    let totals = serde_json::to_value(&report.totals).expect("JSON");
    ["judged", "refused"].map(|name| totals[name].as_u64().expect("a number"))
}

/// The gateway refuses requests without a credential before a policy judges them. They were
/// counted, and refused others.
#[test]
fn requests_without_credentials_are_not_judged() {
    let mut setup = setup_of(vec![by_address()]);
    setup.routes[0].auth = Box::new([AuthMethod::ApiKey]);
    let one = log((0..150).map(|_| (0, 1, 1)));
    let text = one.replace(" 200 1", " 401 1") + &one;
    let report = replay_text(&text, setup.clone(), true);
    assert_eq!(totals(&report), [150, 50]);
    let note = "1 routes ask for credentials (auth), which the replay cannot check: 150 of their \
                requests have the status 401 and are not judged, all others are";
    assert_eq!(report.notes, [note]);
    let suggestions = serde_json::to_value(&report.suggestions).expect("JSON");
    assert_eq!(suggestions["policies"][0]["windows"][2]["trial"]["judged"], 150);
    // An upstream has refused the requests, after the policies.
    setup.routes[0].auth = Box::default();
    assert_eq!(totals(&replay_text(&text, setup, false)), [300, 200]);
}

/// A log with keys has the decisions: a request without a credential counted as admitted.
#[test]
fn known_requests_without_credentials_are_not_judged() {
    let line = |outcome: &str| {
        format!(
            "{{\"time\":\"2026-11-21T07:28:46Z\",\"client\":\"-\",\"method\":\"GET\",\"path\":\"/\",\
             \"outcome\":\"{outcome}\",\"time_us\":1000000,\"keys\":[]}}\n"
        )
    };
    let text = ["admitted", "unauthorized", "key_unknown", "auth_failures"].map(line).concat();
    let report = replay_text(&text, setup_of(vec![by_address()]), false);
    assert_eq!(totals(&report), [1, 0]);
}

/// What the gateway refuses for want of a key counted as admitted, and what it refuses before any
/// policy as judged. The replay said that these decisions are those of the log.
#[test]
fn known_requests_are_judged_as_the_log_says() {
    let judged = |outcome: &str, keys: &str| {
        let line = format!(
            "{{\"time\":\"2026-11-21T07:28:46Z\",\"client\":\"-\",\"method\":\"GET\",\"path\":\"/\",\
             \"outcome\":\"{outcome}\",\"time_us\":1000000,\"keys\":[{keys}]}}\n"
        );
        let report = replay_text(&line, setup_of(vec![by_address()]), false);
        let decisions = serde_json::to_value(&report.totals).expect("JSON");
        let same = ["repeated", "different"].map(|name| decisions[name].as_u64());
        (totals(&report), same)
    };
    let told = [Some(0), Some(0)];
    for outcome in ["denied", "key_missing", "model_unpriced", "key_limit_unfit", "token_missing"] {
        assert_eq!(judged(outcome, ""), ([1, 1], told), "{outcome}");
    }
    let before = "malformed ambiguous question expectation tunnel trace no_route unmatched \
                  unauthorized key_unknown key_expired key_disabled key_revoked token_invalid \
                  token_too_long auth_failures keys_away password_wrong passwords_busy \
                  body_ambiguous body_coding body_memory body_too_large body_timeout body_broken";
    for outcome in before.split(' ') {
        assert_eq!(judged(outcome, ""), ([0, 0], told), "{outcome}");
    }
    let key = "{\"policy\":\"by-address\",\"id\":\"000000000007\",\"cost\":1}";
    // A policy that counts such responses has admitted the request, and then it was refused.
    for outcome in ["admitted", "upstream_timeout", "unauthorized", "body_too_large"] {
        assert_eq!(judged(outcome, key), ([1, 0], [Some(1), Some(0)]), "{outcome}");
    }
    // The memory of the replay does not fail.
    assert_eq!(judged("store_away", key), ([1, 0], [Some(0), Some(1)]));
    // The second of two decisions: what the first had charged was given back.
    assert_eq!(judged("key_missing", key), ([1, 1], told));
}

/// A list of the values of a field denied all requests of a log without this field, and no note
/// told it.
#[test]
fn an_access_list_that_compares_what_the_log_lacks_is_not_applied() {
    let enforce = AccessMode::Enforce;
    let list = |name: &str, rule: AccessRule, otherwise: AccessEffect| {
        let answer = DenialAnswer::default();
        Arc::new(AccessList::new(name.into(), vec![rule], otherwise, enforce, answer))
    };
    let allow = || AccessRule::new(AccessEffect::Allow);
    let team: KeyExpr = "header:x-team".parse().expect("a key");
    let values = [Box::from(*b"core")].into_iter().collect();
    let team = list("team", allow().with_values(team, values), AccessEffect::Deny);
    let field = http::HeaderName::from_static("x-inside");
    let field = allow().with_header(field, http::HeaderValue::from_static("1"));
    let field = list("inside", field, AccessEffect::Deny);
    let puts = AccessRule::new(AccessEffect::Deny).with_methods(vec![http::Method::PUT]);
    let puts = list("puts", puts, AccessEffect::Allow);
    let mut setup = setup_of(vec![by_address()]);
    setup.routes[0].access = vec![team, field, puts];
    let text = log((0..3).map(|_| (1, 1, 1)));
    let text = text.clone() + &text.replace("GET", "PUT");
    let report = replay_text(&text, setup.clone(), true);
    assert_eq!(totals(&report), [3, 0]);
    let notes = [
        "access list team: the log lacks header:x-team; the list is not applied",
        "access list inside: the log lacks header:x-inside; the list is not applied",
    ];
    assert_eq!(report.notes, notes);
    let suggestions = serde_json::to_value(&report.suggestions).expect("JSON");
    assert_eq!(suggestions["policies"][0]["windows"][2]["trial"]["judged"], 3);
    // A log that has the fields.
    let line = |team: &str, second: u64| {
        format!(
            "{{\"level\":\"info\",\"ts\":{second},\"logger\":\"http.log.access.log0\",\
             \"request\":{{\"remote_ip\":\"192.0.2.1\",\"method\":\"GET\",\"uri\":\"/\",\
             \"headers\":{{\"X-Inside\":[\"1\"],\"X-Team\":[\"{team}\"]}}}},\"status\":200}}\n"
        )
    };
    let with_fields = line("core", 1_795_246_126) + &line("other", 1_795_246_127);
    let report = replay_text(&with_fields, setup.clone(), false);
    assert_eq!((totals(&report), report.notes.len()), ([1, 0], 0));
    // Each request waits until the log has come a minute further.
    let without = [1_795_244_000, 1_795_245_000].map(|second| line("core", second)).concat();
    let report = replay_text(&(without.replace("X-Team", "X-Other") + &with_fields), setup, false);
    let note = "1 requests come before the first one with the fields that access lists compare: \
                the lists are not applied to them";
    assert_eq!((totals(&report), &*report.notes), ([2, 0], &[note.to_owned()][..]));
}

#[test]
fn a_note_names_routes_that_overflow() {
    let mut setup = setup_of(vec![by_address()]);
    setup.overflowing = vec!["models".into()];
    let text = log((0..150).map(|_| (0, 1, 1)));
    let report = replay_text(&text, setup, false);
    let note = "the route models hands requests that its policies refuse to a later route \
                (overflow): the replay counts them as refused, and the later route does not judge \
                them";
    assert_eq!((totals(&report), &*report.notes), ([150, 50], &[note.to_owned()][..]));
}

/// The old rules need a field that the log lacks, so what they refused is a guess.
#[test]
fn notes_tell_what_the_other_rules_lack() {
    let tenant: KeyExpr = "header:x-tenant".parse().expect("a key");
    let old = Policy { key: tenant, ..by_address() };
    let mut against = setup_of(vec![old]);
    against.name = "old.yaml".to_owned();
    let report = replay_job(&log([(0, 1, 1)]), setup_of(vec![by_address()]), |job| {
        job.against = Some(against);
    });
    let note = "old.yaml (--against): by-address: the log lacks header:x-tenant; requests without \
                the key count by address (missing_key: ip)";
    assert_eq!(report.notes, [note]);
}

/// Our own log has the names of parameters in all its formats, and only one of them had a note,
/// which said that requests count by address.
#[test]
fn a_note_tells_of_values_of_parameters_that_the_log_masks() {
    let param = || "param:id".parse::<KeyExpr>().expect("a key");
    let by = |key| setup_of(vec![Policy { key, ..by_address() }]);
    let note = |words: &str| {
        format!(
            "by-address: the log has the names of path parameters and not their values; all \
             values of {words} count as one key"
        )
    };
    let masked = log([(0, 1, 1), (0, 2, 1)]).replace("GET /1", "GET /users/{id}?a");
    let otel = "{\"timestamp\":\"2026-11-25T09:51:16.876Z\",\"client.address\":\"192.0.2.7\",\
                \"http.request.method\":\"GET\",\"url.path\":\"/users/{id}\",\
                \"tollgate.outcome\":\"admitted\"}\n";
    let text = "2026-11-25T09:51:21.567Z 192.0.2.1 GET \"/users/{id}\" 200 392B 514us admitted\n";
    for log in [&*masked, otel, text] {
        assert_eq!(replay_text(log, by(param()), false).notes, [note("param:id")], "{log}");
        assert_eq!(replay_text(log, by(KeyExpr::Path), false).notes, [note("path")], "{log}");
        assert_eq!(replay_text(log, by(KeyExpr::Ip), false).notes, [""; 0], "{log}");
    }
    let plain = log([(0, 1, 1)]).replace("GET /1", "GET /users/{/{}?{id}");
    assert_eq!(replay_text(&plain, by(param()), false).notes, [""; 0]);
}

/// Caddy and Traefik write this for all clients: it was the key of all of them.
#[test]
fn a_field_whose_value_is_hidden_is_no_key() {
    let key: KeyExpr = "header:authorization".parse().expect("a key");
    let line = |host: u64| {
        format!(
            "{{\"level\":\"info\",\"ts\":1795246126.2,\"logger\":\"http.log.access.log0\",\
             \"request\":{{\"remote_ip\":\"192.0.2.{host}\",\"method\":\"GET\",\"uri\":\"/\",\
             \"headers\":{{\"Authorization\":[\"REDACTED\"]}}}},\"status\":200}}\n"
        )
    };
    let text: String = (0..200).map(line).collect();
    let report = replay_text(&text, setup_of(vec![Policy { key, ..by_address() }]), false);
    assert_eq!(totals(&report), [200, 0]);
    let note = "by-address: the log lacks header:authorization; requests without the key count by \
                address (missing_key: ip)";
    assert_eq!(report.notes, [note]);
}

/// A program writes other lines when it starts. A log of it in Docker was not recognised then, not
/// even with the name of its format.
#[test]
fn requests_may_come_after_many_other_lines() {
    let docker = |line: &str| {
        let time = "2026-11-21T07:28:46.1Z";
        format!("{{\"log\":\"{line}\\n\",\"stream\":\"stdout\",\"time\":\"{time}\"}}\n")
    };
    let other = docker("a module was loaded").repeat(5000);
    let requests = log((0..20).map(|_| (0, 1, 1)));
    let requests = requests.lines().map(|line| docker(&line.replace('"', "\\\"")));
    let text = other + &requests.collect::<String>();
    for format in [None, Format::named("combined")] {
        let report = replay_job(&text, setup_of(vec![by_address()]), |job| job.format = format);
        let of_log = serde_json::to_value(&report.log).expect("JSON");
        assert_eq!((&of_log["requests"], &of_log["inside"]), (&20.into(), &"docker".into()));
    }
}

/// Requests of so many clients for as many paths, one after the other.
fn steady(count: u64, clients: u64) -> String {
    log((0..count).map(|at| (at % 2, at * 7 % clients, at % clients)))
}

/// Before, the counters of five trials had room for as many keys as a gateway, and took most of
/// the memory.
#[test]
fn most_requests_are_not_tried_again_and_most_keys_have_no_counter() {
    let some = suggested(&steady(6000, 1900), Trying::Needed);
    let all = suggested(&steady(6000, 1900), Trying::All);
    assert_eq!(all.decisions, 5 * 6000);
    assert!(some.decisions * 2 <= all.decisions, "{} of {}", some.decisions, all.decisions);
    assert_eq!(all.rooms, [10_000; 5]);
    assert!(some.rooms.iter().any(|room| *room <= 1000), "{:?}", some.rooms);
}

#[test]
fn a_log_twice_as_long_is_twice_the_work() {
    let [once, twice] =
        [12_000, 24_000].map(|count| suggested(&steady(count, 190), Trying::Needed).work);
    assert!((19 * once..=21 * once).contains(&(10 * twice)), "{twice} steps after {once}");
}

#[test]
fn a_note_tells_of_limits_of_single_keys_that_a_policy_cannot_count() {
    let line = |second: u64, limit: u64| {
        format!(
            "{{\"time\":\"2026-11-21T07:28:46Z\",\"client\":\"-\",\"method\":\"GET\",\"path\":\"/\",\
             \"outcome\":\"admitted\",\"time_us\":{second}000000,\"keys\":[{{\"policy\":\"a\",\
             \"id\":\"000000000007\",\"cost\":1,\"limit\":{limit}}}]}}\n"
        )
    };
    let log = [line(1, 7), line(2, u64::MAX), line(3, u64::MAX)].concat();
    let report = replay_text(&log, setup(), false);
    let told = |note: &&String| note.contains("a policy cannot count");
    let note = report.notes.iter().find(told).expect("a note");
    assert!(note.starts_with("2 decisions of the log"), "{note}");
}

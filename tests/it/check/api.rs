//! The JSON API: the examples of its page, one counter with the proxy, and leases on several
//! nodes.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::redis::{Options, Redis};
use crate::support::{Client, Gateway, Response, eventually};

const PAGE: &str = include_str!("../../../docs/check-api.md");
const TOKEN: &str = "0123456789abcdef";

/// A caller of the API of a gateway whose second listener it is.
pub(super) struct Caller {
    client: Client,
    fields: Vec<String>,
}

impl Caller {
    pub(super) fn of(gateway: &Gateway) -> Self {
        Self::at(gateway.addresses()[1])
    }

    pub(super) fn at(address: SocketAddr) -> Self {
        let token = format!("Authorization: Bearer {TOKEN}");
        let fields = vec!["Content-Type: application/json".to_owned(), token];
        Self { client: Client::connect(address), fields }
    }

    /// The answer to a call that also has the fields `more`.
    pub(super) fn response(&mut self, path: &str, body: &str, more: &[&str]) -> Response {
        let fields = self.fields.iter().map(String::as_str).chain(more.iter().copied());
        let fields: Vec<&str> = fields.collect();
        self.client.request("POST", path, &fields, body.as_bytes())
    }

    /// The status and the body of the answer.
    pub(super) fn send(&mut self, path: &str, body: &str, more: &[&str]) -> (u16, Value) {
        let response = self.response(path, body, more);
        let body = serde_json::from_slice(&response.body);
        (response.status, body.unwrap_or_else(|_| panic!("{response:?}")))
    }

    pub(super) fn call(&mut self, path: &str, body: &Value) -> (u16, Value) {
        self.send(path, &body.to_string(), &[])
    }

    pub(super) fn check(&mut self, body: &Value) -> Value {
        let (status, answer) = self.call("/v1/check", body);
        assert_eq!(status, 200, "{body}: {answer}");
        answer
    }

    /// The status of a call with a lease.
    pub(super) fn end(&mut self, verb: &str, lease: &Value, more: &Value) -> u16 {
        let mut body = json!({ "lease": lease });
        let fields = more.as_object().expect("it is an object").clone();
        body.as_object_mut().expect("it is an object").extend(fields);
        self.call(verb, &body).0
    }

    pub(super) fn remaining(&mut self, policy: &str, key: &str) -> u64 {
        let answer = self.check(&json!({ "policy": policy, "key": key, "peek": true }));
        answer["remaining"].as_u64().expect("it is a number")
    }
}

/// Whether an answer is as the page shows it: times only have the same type, and leases differ.
fn is_like(shown: &Value, found: &Value) -> bool {
    match (shown, found) {
        (Value::Object(shown), Value::Object(found)) => {
            shown.len() == found.len()
                && shown.iter().all(|(name, shown)| match (name.as_str(), found.get(name)) {
                    (_, None) => false,
                    ("lease", Some(found)) => found.is_string(),
                    ("expires_in_ms", Some(found)) => shown == found,
                    (name, Some(found)) if name.ends_with("_ms") => {
                        shown.is_null() == found.is_null()
                    }
                    (_, Some(found)) => is_like(shown, found),
                })
        }
        (Value::Array(shown), Value::Array(found)) => {
            shown.len() == found.len() && shown.iter().zip(found).all(|(a, b)| is_like(a, b))
        }
        (shown, found) => shown == found,
    }
}

/// The fenced blocks of the page: their language and their text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let fenced = PAGE.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

/// The part of a command between these texts.
fn between<'c>(command: &'c str, start: &str, end: &str) -> Option<&'c str> {
    let (_, rest) = command.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

#[test]
fn the_examples_of_the_page_are_true() {
    let blocks = blocks();
    let yaml = blocks.iter().find(|(language, _)| *language == "yaml").expect("there is one").1;
    let yaml = yaml
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("127.0.0.1:9902", "127.0.0.1:0")
        .replace("${CHECK_TOKEN}", TOKEN);
    let gateway = Gateway::start(&yaml);
    let mut caller = Caller::of(&gateway);
    let mut lease = String::new();
    let mut run = 0;
    let mut commands = blocks.iter().filter(|(language, _)| *language != "yaml");
    while let (Some((_, command)), Some((_, shown))) = (commands.next(), commands.next()) {
        let path = between(command, "$CHECK", "\"").expect("it has a path");
        let body = between(command, "-d '", "'\n").expect("it has a body");
        let body = body.replace("'\"$LEASE\"'", &lease);
        let fields: Vec<&str> = between(command, "-H '", "'").into_iter().collect();
        let (_, found) = caller.send(path, &body, &fields);
        let shown: Value = serde_json::from_str(shown).expect("it is JSON");
        assert!(is_like(&shown, &found), "{command}\n{found:#}");
        lease = found["lease"].as_str().unwrap_or_default().to_owned();
        run += 1;
    }
    assert!(run >= 9, "{run} examples");
}

/// A gateway with counters in memory and two workers.
fn in_memory() -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         check: {{ http: {{ address: \"127.0.0.1:0\", leases: {{ max: 3 }}, \
         tokens: [{{ token: \"{TOKEN}\", policies: [each, held] }}] }} }}\n\
         policies:\n\
         \x20 each: {{ key: \"header:x-client\", limit: 100/d, algorithm: fixed_window }}\n\
         \x20 held: {{ key: \"header:x-client\", limit: 3, algorithm: concurrency }}\n\
         \x20 other: {{ key: ip, limit: 5/d }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n\
         runtime: {{ workers: 2 }}\n"
    ))
}

#[test]
fn the_proxy_and_the_api_have_one_counter() {
    let gateway = in_memory();
    let mut caller = Caller::of(&gateway);
    let mut proxy = gateway.client();
    let mut through = || {
        let response = proxy.get("/", &["X-Client: ann"]);
        let left = response.field("X-Ratelimit-Remaining").and_then(|it| it.parse::<u64>().ok());
        (response.status, left)
    };
    assert_eq!(through(), (200, Some(99)));
    let answer = caller.check(&json!({ "policy": "each", "key": "ann", "cost": 90 }));
    assert_eq!(answer["remaining"], 9);
    assert_eq!(through(), (200, Some(8)));
    let batch = vec![json!({ "policy": "each", "key": "ann" }); 9];
    let answers = caller.check(&json!({ "checks": batch }));
    let admitted = answers["answers"]
        .as_array()
        .map(|all| all.iter().map(|it| it["admitted"] == true).collect::<Vec<_>>());
    assert_eq!(admitted, Some((0..9).map(|index| index < 8).collect()));
    assert_eq!(through().0, 429);

    // Of calls that are repeated, one counts.
    let body = r#"{"policy": "each", "key": "ben"}"#;
    let first = caller.send("/v1/check", body, &["Idempotency-Key: one"]);
    for _ in 0..8 {
        // The workers have one memory.
        let mut again = Caller::of(&gateway);
        assert_eq!(again.send("/v1/check", body, &["Idempotency-Key: one"]), first);
    }
    assert_eq!(caller.remaining("each", "ben"), 99);
    let other =
        caller.send("/v1/check", r#"{"policy": "each", "key": "x"}"#, &["Idempotency-Key: one"]);
    assert_eq!(other.0, 409);

    // What is wrong with one question is wrong with the call.
    let wrong = [
        (json!({ "policy": "none", "key": "a" }), 403, "/policy"),
        (json!({ "policy": "other", "key": "1.2.3.4" }), 403, "/policy"),
        (json!({ "route": "none", "key": "a" }), 404, "/route"),
        (json!({ "policy": "each", "key": "" }), 400, "/key"),
        (json!({ "policy": "each", "key": "a", "ttl": "9s" }), 400, "/ttl"),
        (json!({ "policy": "held", "key": "a" }), 400, "/lease"),
        (json!({ "name": "n", "limit": "1/s", "key": "a" }), 403, "/limit"),
    ];
    for (question, status, pointer) in wrong {
        let body = json!({ "checks": [{ "policy": "each", "key": "cy" }, question] });
        let (found, problem) = caller.call("/v1/check", &body);
        assert_eq!(
            (found, &problem["pointer"]),
            (status, &json!(format!("/checks/1{pointer}"))),
            "{problem}"
        );
    }
    assert_eq!(caller.remaining("each", "cy"), 100, "nothing was counted");
    let mut stranger = Caller::of(&gateway);
    stranger.fields.pop();
    assert_eq!(stranger.call("/v1/check", &json!({})).0, 401);
    stranger.fields[0] = "Content-Type: text/plain".to_owned();
    stranger.fields.push(format!("Authorization: Bearer {TOKEN}"));
    assert_eq!(stranger.call("/v1/check", &json!({})).0, 415);
    assert_eq!(caller.send("/v1/check", &" ".repeat((1 << 20) + 1), &[]).0, 413);
}

/// Questions beyond `leases.max` were once charged under their other policies, and had no lease.
#[test]
fn a_call_whose_leases_have_no_place_charges_nothing() {
    let gateway = in_memory();
    let mut caller = Caller::of(&gateway);
    let question = |key: String| json!({ "policies": ["each", "held"], "key": key, "lease": true });
    let batch = |count: usize, together: bool| {
        let checks: Vec<Value> = (0..count).map(|n| question(format!("c{n}"))).collect();
        json!({ "checks": checks, "together": together })
    };
    // Three leases have a place.
    for together in [false, true] {
        for count in [4, 8] {
            let (status, problem) = caller.call("/v1/check", &batch(count, together));
            assert_eq!(status, 503, "{problem}");
        }
    }
    assert_eq!((caller.remaining("each", "c0"), caller.remaining("each", "c7")), (100, 100));
    let answers = caller.check(&batch(2, true))["answers"].clone();
    assert_eq!(caller.call("/v1/check", &batch(2, false)).0, 503);
    let third = caller.check(&question("c9".to_owned()));
    assert_eq!((&third["admitted"], third["lease"].is_string()), (&json!(true), true));
    assert_eq!(caller.call("/v1/check", &question("c9".to_owned())).0, 503);
    let left = ["c0", "c1", "c2", "c9"].map(|key| caller.remaining("each", key));
    assert_eq!(left, [99, 99, 100, 99]);
    for answer in [&answers[0], &answers[1], &third] {
        assert_eq!(caller.end("/v1/release", &answer["lease"], &json!({})), 200);
    }

    // The places of questions that are refused are free again.
    let own = json!({ "policies": ["each", "held"], "key": "x", "lease": true, "cost": 101 });
    assert_eq!(
        caller.check(&json!({ "checks": [own, own, own] }))["answers"][2]["admitted"],
        false
    );
    assert!(caller.check(&batch(3, false))["answers"][2]["lease"].is_string());
}

#[test]
fn calls_at_the_same_time_are_charged_for_the_leases_that_they_have() {
    let gateway = in_memory();
    let call = |name: usize| {
        let mut caller = Caller::of(&gateway);
        let question = |key: &str| {
            let key = format!("{key}{name}");
            json!({ "policies": ["each", "held"], "key": key, "lease": true })
        };
        let body = json!({ "checks": [question("a"), question("b")] });
        let (status, answers) = caller.call("/v1/check", &body);
        let is_given = |n: usize| answers["answers"][n]["lease"].is_string();
        assert_eq!([is_given(0), is_given(1)], [status == 200; 2], "{answers}");
        let left = if status == 200 { 99 } else { 100 };
        for key in ["a", "b"] {
            assert_eq!(caller.remaining("each", &format!("{key}{name}")), left);
        }
        status
    };
    let statuses = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|name| scope.spawn(move || call(name))).collect();
        let statuses = calls.into_iter().map(|call| call.join().expect("it is answered"));
        statuses.collect::<Vec<_>>()
    });
    let given = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!((given, statuses.len()), (1, 8), "{statuses:?}");
}

#[test]
fn a_lease_is_settled_once_and_ends_at_its_time() {
    let gateway = in_memory();
    let mut caller = Caller::of(&gateway);
    let ask = |caller: &mut Caller, more: Value| {
        let mut body = json!({ "policy": "each", "key": "ann", "cost": 40, "lease": true });
        let more = more.as_object().expect("it is an object").clone();
        body.as_object_mut().expect("it is an object").extend(more);
        caller.check(&body)["lease"].clone()
    };
    let late = ask(&mut caller, json!({ "ttl": "1s" }));
    let lease = ask(&mut caller, json!({}));
    for (actual, status) in [(15, 200), (15, 200), (16, 409), (15, 200)] {
        assert_eq!(caller.end("/v1/settle", &lease, &json!({ "actual": actual })), status);
    }
    assert_eq!(caller.end("/v1/release", &lease, &json!({})), 409);
    assert_eq!(caller.remaining("each", "ann"), 45);
    // A lease that is renewed is replaced, also if the answer was lost.
    let old = ask(&mut caller, json!({ "key": "bob", "ttl": "1s" }));
    let renew = json!({ "lease": old, "ttl": "30s" });
    let [first, second] = [(); 2].map(|()| caller.call("/v1/renew", &renew));
    assert_eq!((first.0, second.0), (200, 200));
    assert_eq!(caller.end("/v1/settle", &old, &json!({ "actual": 0 })), 409);
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(caller.end("/v1/settle", &late, &json!({ "actual": 0 })), 410);
    assert_eq!(caller.end("/v1/settle", &old, &json!({ "actual": 0 })), 410);
    assert_eq!(caller.end("/v1/settle", &first.1["lease"], &json!({ "actual": 50 })), 200);
    assert_eq!(caller.end("/v1/settle", &second.1["lease"], &json!({ "actual": 0 })), 409);
    assert_eq!((caller.remaining("each", "ann"), caller.remaining("each", "bob")), (45, 50));
    assert_eq!(caller.end("/v1/settle", &json!("AQ"), &json!({ "actual": 0 })), 400);

    // Units in flight are held for the lease, and any worker gives them back.
    let hold = json!({ "policy": "held", "key": "ann", "lease": true, "ttl": "1s" });
    let leases = [(); 3].map(|()| Caller::of(&gateway).check(&hold)["lease"].clone());
    assert_eq!(caller.call("/v1/check", &hold).0, 503, "the node holds its most leases");
    assert_eq!(caller.remaining("held", "ann"), 0);
    assert_eq!(caller.end("/v1/renew", &leases[0], &json!({ "ttl": "1m" })), 200);
    for _ in 0..6 {
        assert_eq!(Caller::of(&gateway).end("/v1/release", &leases[1], &json!({})), 200);
        let other = json!({ "actual": 1 });
        assert_eq!(Caller::of(&gateway).end("/v1/settle", &leases[1], &other), 409);
        assert_eq!(Caller::of(&gateway).end("/v1/renew", &leases[1], &json!({})), 409);
    }
    assert_eq!(caller.remaining("held", "ann"), 1);
    eventually("the lease that was not renewed ends", || caller.remaining("held", "ann") == 2);
    let release = json!({ "leases": [{ "lease": leases[0] }, { "lease": leases[2] }] });
    let (_, answers) = caller.call("/v1/release", &release);
    assert_eq!(
        (&answers["answers"][0]["actual"], &answers["answers"][1]["status"]),
        (&json!(null), &json!(410))
    );
}

/// Answers once belonged to the number of a token in the list.
#[test]
fn answers_that_are_kept_belong_to_a_token_wherever_it_stands() {
    let yaml = |tokens: &[&str]| {
        let tokens: Vec<String> =
            tokens.iter().map(|it| format!("{{ token: {it}{TOKEN} }}")).collect();
        format!(
            "check: {{ http: {{ address: \"127.0.0.1:0\", tokens: [{}] }} }}\n\
             policies: {{ each: {{ key: \"header:x-client\", limit: 100/d }} }}\n\
             routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n",
            tokens.join(", ")
        )
    };
    let gateway = Gateway::start(&yaml(&["a", "b"]));
    let address = gateway.addresses()[0];
    let left = |token: &str| {
        let mut caller = Caller::at(address);
        caller.fields[1] = format!("Authorization: Bearer {token}{TOKEN}");
        let body = r#"{"policy": "each", "key": "ann"}"#;
        let (status, answer) = caller.send("/v1/check", body, &["Idempotency-Key: one"]);
        (status, answer["remaining"].as_u64())
    };
    assert_eq!((left("a"), left("b")), ((200, Some(99)), (200, Some(98))));
    gateway.reload(&yaml(&["new", "b", "a"]));
    assert_eq!((left("a"), left("b")), ((200, Some(99)), (200, Some(98))));
    assert_eq!(left("new"), (200, Some(97)));
}

/// A node on this Redis with a policy of each kind.
fn on(redis: &Redis) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         check: {{ http: {{ address: \"127.0.0.1:0\" }} }}\n\
         store: {{ redis: {{ url: \"{}\", timeout: 2s }} }}\n\
         policies:\n\
         \x20 each: {{ key: \"header:x-client\", limit: 100/d, algorithm: fixed_window }}\n\
         \x20 log: {{ key: \"header:x-client\", limit: 100/d, algorithm: sliding_log }}\n\
         \x20 lent: {{ key: \"header:x-client\", limit: 100/d, store_mode: leased }}\n\
         \x20 held: {{ key: \"header:x-client\", limit: 3, algorithm: concurrency }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n\
         runtime: {{ workers: 1 }}\n",
        redis.url()
    ))
}

/// A caller that is answered by the store.
fn caller_of(node: &Gateway) -> Caller {
    let mut caller = Caller::of(node);
    eventually("the node has its store", || {
        caller.check(&json!({ "policy": "each", "key": "probe" }))["source"] == "store"
    });
    caller
}

/// A client that has left before the answer sends its call again, and does not know whether the
/// first one was counted. The first one was once forgotten with its client, and counted twice.
#[test]
fn a_call_whose_client_leaves_is_not_counted_again() {
    let redis = Redis::start(Options::default());
    let node = on(&redis);
    let mut caller = caller_of(&node);
    redis.cli(&["CLIENT", "PAUSE", "500", "ALL"]);
    let body = r#"{"policy": "each", "key": "ann", "cost": 7}"#;
    let mut leaving = Caller::of(&node);
    let head = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
    let rest = format!("Idempotency-Key: once\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    leaving.client.send(format!("{head}{rest}").as_bytes());
    // The call is with the store when its client leaves.
    std::thread::sleep(Duration::from_millis(100));
    drop(leaving);
    std::thread::sleep(Duration::from_millis(100));
    let mut answer = Value::Null;
    eventually("the call has ended", || {
        let (status, found) = caller.send("/v1/check", body, &["Idempotency-Key: once"]);
        answer = found;
        status == 200
    });
    assert_eq!((&answer["admitted"], &answer["remaining"]), (&json!(true), &json!(93)));
    assert_eq!(caller.remaining("each", "ann"), 93);
}

#[test]
fn any_node_settles_a_lease_also_after_a_restart() {
    let redis = Redis::start(Options::default());
    let first = on(&redis);
    let second = on(&redis);
    let mut one = caller_of(&first);
    let mut two = caller_of(&second);
    let mut leases = Vec::new();
    for policy in ["each", "log", "lent"] {
        let question = json!({ "policy": policy, "key": "ann", "cost": 40, "lease": true });
        let [lease, other] = [(); 2].map(|()| one.check(&question)["lease"].clone());
        assert_eq!(two.end("/v1/settle", &lease, &json!({ "actual": 15 })), 200, "{policy}");
        for caller in [&mut one, &mut two] {
            assert_eq!(caller.end("/v1/settle", &lease, &json!({ "actual": 15 })), 200, "{policy}");
            assert_eq!(caller.end("/v1/settle", &lease, &json!({ "actual": 16 })), 409, "{policy}");
        }
        eventually("less is given back", || two.remaining(policy, "ann") == 45);
        leases.push(other);
    }
    // Several policies of one client, and more than was reserved.
    let question = json!({ "policies": ["each", "log"], "key": "bob", "cost": 10, "lease": true });
    let lease = one.check(&question)["lease"].clone();
    assert_eq!(two.end("/v1/settle", &lease, &json!({ "actual": 30 })), 200);
    assert_eq!(one.end("/v1/settle", &lease, &json!({ "actual": 30 })), 200);
    assert_eq!((one.remaining("each", "bob"), two.remaining("log", "bob")), (70, 70));
    let held = one.check(&json!({ "policy": "held", "key": "ann", "lease": true }));
    assert_eq!(two.end("/v1/release", &held["lease"], &json!({})), 421);
    assert_eq!(one.end("/v1/release", &held["lease"], &json!({})), 200);

    drop(first);
    let again = on(&redis);
    let mut one = caller_of(&again);
    assert_eq!(one.end("/v1/settle", &leases[0], &json!({ "actual": 5 })), 200);
    assert_eq!(one.end("/v1/settle", &leases[1], &json!({ "actual": 5 })), 200);
    assert_eq!((one.remaining("each", "ann"), two.remaining("log", "ann")), (80, 80));
    assert_eq!(one.end("/v1/release", &held["lease"], &json!({})), 421);
}

/// It takes up to 15 seconds.
#[test]
fn units_in_flight_of_a_node_that_is_killed_are_free_within_15_seconds() {
    let redis = Redis::start(Options::default());
    let first = on(&redis);
    let second = on(&redis);
    let mut one = caller_of(&first);
    let mut two = caller_of(&second);
    for _ in 0..3 {
        let question = json!({ "policy": "held", "key": "ann", "lease": true, "ttl": "1h" });
        assert_eq!(one.check(&question)["admitted"], true);
    }
    eventually("they are counted", || two.remaining("held", "ann") == 0);
    first.signal("KILL");
    let killed = crate::support::now();
    while two.remaining("held", "ann") < 3 {
        assert!(killed.elapsed() < Duration::from_secs(16), "they are not free");
        std::thread::sleep(Duration::from_millis(100));
    }
}

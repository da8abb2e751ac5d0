//! API keys, `auth` and access lists for requests about which Envoy asks over gRPC.

use crate::api_keys::{Keys, id, invented};
use crate::authorizers::checker::Told;
use crate::passwords::{Users, basic};
use crate::support::Gateway;
use crate::support::http::{Http, block_on};

use super::authorization::{ask_with, question};

/// A question about a path, of a client with these fields.
type Question<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// The answers to questions, in their order.
fn told(gateway: &Gateway, questions: &[Question<'_>]) -> Vec<Told> {
    block_on(async {
        let connection = Http::prior_knowledge(gateway.address()).await;
        let mut all = Vec::new();
        for (path, client, fields) in questions {
            let answer = ask_with(&connection, question(path, client, fields), &[]).await;
            assert_eq!(answer.trailers["grpc-status"], "0", "{answer:?}");
            all.push(Told::of(&answer.body));
        }
        all
    })
}

/// A gateway that Envoy asks, with these keys. `client` are further fields of its section, and
/// `rest` is the rest of the file.
fn asked(keys: &Keys, client: &str, rest: &str) -> Gateway {
    Gateway::start(&format!(
        "check: {{ grpc: {{ address: \"127.0.0.1:0\", services: [authorization] }} }}\n\
         client: {{ keys: {{ file: {:?} }}, {client} }}\nruntime: {{ workers: 1 }}\n{rest}\n",
        keys.path()
    ))
}

const CLIENT: &str = "192.0.2.1";

#[test]
fn a_request_without_a_right_key_does_not_pass() {
    let keys = Keys::new();
    let key = keys.create(&["--name", "one", "--team", "acme"]);
    let expired = keys.create(&["--expires", "2020-01-01"]);
    let gateway = asked(
        &keys,
        "",
        "policies: { per-key: { key: api_key, limit: 2/hour } }\n\
         routes: [{ path: /v1/*, auth: [api_key], policies: [per-key], respond: { status: 204 } }]",
    );
    let unknown = invented();
    let right = [("x-api-key", &*key)];
    let answers = told(
        &gateway,
        &[
            ("/v1/a", CLIENT, &[]),
            ("/v1/a", CLIENT, &[("x-api-key", &unknown)]),
            ("/v1/a", CLIENT, &[("x-api-key", &expired)]),
            ("/v1/a", CLIENT, &right),
            ("/v1/a", "192.0.2.2", &right),
            ("/v1/a", "192.0.2.3", &right),
            ("/v2", CLIENT, &[]),
        ],
    );
    let statuses: Vec<_> = answers.iter().map(|it| (it.code, it.denied)).collect();
    let unauthorized = (16, Some(401));
    assert_eq!(statuses[..3], [unauthorized; 3]);
    // Another path has no route here, and another address shares the counter of the key.
    assert_eq!(statuses[3..], [(0, None), (0, None), (8, Some(429)), (0, None)]);
    let challenges: Vec<_> =
        answers[..3].iter().map(|it| it.field("www-authenticate").expect("a challenge")).collect();
    assert!(!challenges[0].contains("error"), "there was no credential");
    assert!(challenges[1].contains("error=\"invalid_token\""), "{challenges:?}");
    assert_eq!(answers[3].field("x-ratelimit-remaining"), Some("1"));
    let lines = gateway.access_lines(7);
    let outcomes: Vec<_> =
        lines.iter().map(|line| line["outcome"].as_str().unwrap_or("")).collect();
    let words = ["unauthorized", "key_unknown", "key_expired", "admitted", "admitted", "refused"];
    assert_eq!(outcomes[..6], words);
    assert_eq!((&lines[3]["key_id"], &lines[3]["team"]), (&id(&key).into(), &"acme".into()));
    let logged = format!("{lines:?}{}", gateway.log());
    for secret in [&key, &expired, &unknown] {
        assert!(!logged.contains(secret.rsplit('_').next().expect("a secret")), "{logged}");
    }
}

/// The failures are those of the client that Envoy names, and not of Envoy.
#[test]
fn failures_count_by_the_address_of_the_client() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let rest = "routes: [{ path: /*, auth: [api_key], respond: { status: 204 } }]";
    let gateway = asked(&keys, "failures: 2/hour", rest);
    let unknown = invented();
    let wrong = [("x-api-key", &*unknown)];
    let right = [("x-api-key", &*key)];
    let answers = told(
        &gateway,
        &[
            ("/", CLIENT, &wrong),
            ("/", CLIENT, &wrong),
            ("/", CLIENT, &wrong),
            ("/", "192.0.2.2", &wrong),
            ("/", CLIENT, &right),
        ],
    );
    let statuses: Vec<_> = answers.iter().map(|it| (it.code, it.denied)).collect();
    let unauthorized = (16, Some(401));
    let expected = [unauthorized, unauthorized, (8, Some(429)), unauthorized, (0, None)];
    assert_eq!(statuses, expected);
    assert!(answers[2].field("retry-after").is_some_and(|it| it.parse::<u64>().is_ok()));
}

/// A password that Envoy passes on is checked, and a wrong one is not forwarded.
#[test]
fn passwords_are_checked() {
    let users = Users::new();
    let check = "check: { grpc: { address: \"127.0.0.1:0\", services: [authorization] } }\n\
         policies: { per-user: { key: user, limit: 1/hour } }\n\
         routes: [{ path: /*, auth: [user], policies: [per-user], respond: { status: 204 } }]";
    let gateway = Gateway::start(&users.without_listener("failures: 3/hour", check));
    let [right, wrong] = ["hunter2", "x"].map(|password| basic("ann", password));
    let [right, wrong] = [&right, &wrong].map(|value| [("authorization", &**value)]);
    let answers = told(
        &gateway,
        &[
            ("/", CLIENT, &[]),
            ("/", CLIENT, &wrong),
            ("/", CLIENT, &right),
            ("/", "192.0.2.2", &right),
        ],
    );
    let statuses: Vec<_> = answers.iter().map(|it| (it.code, it.denied)).collect();
    let unauthorized = (16, Some(401));
    assert_eq!(statuses, [unauthorized, unauthorized, (0, None), (8, Some(429))]);
    let challenge = answers[1].field("www-authenticate").expect("a challenge");
    assert!(challenge.starts_with("Basic realm=\"staff\""), "{challenge}");
    assert!(!gateway.log().contains("hunter2"));
}

#[test]
fn access_lists_decide_with_their_status() {
    let keys = Keys::new();
    let acme = keys.create(&["--team", "acme"]);
    let other = keys.create(&["--team", "other"]);
    let gateway = asked(
        &keys,
        "",
        "access:\n  \
           office: { rules: [{ allow: { ips: [192.0.2.0/24] } }], else: deny }\n  \
           hidden: { rules: [], else: deny, status: 404 }\n  \
           closed: { rules: [], else: deny, status: 503, retry_after: 10m }\n  \
           team: { rules: [{ allow: { values: { \"api_key:team\": [acme] } } }], else: deny }\n\
         policies: { two: { key: ip, limit: 2/hour } }\n\
         routes:\n\
         - { path: /office, access: [office], policies: [two], respond: { status: 204 } }\n\
         - { path: /hidden, access: [hidden], respond: { status: 204 } }\n\
         - { path: /closed, access: [closed], respond: { status: 204 } }\n\
         - { path: /team, access: [team], auth: [api_key], respond: { status: 204 } }",
    );
    let far = "203.0.113.9";
    let answers = told(
        &gateway,
        &[
            ("/office", far, &[("x-forwarded-for", CLIENT)]),
            ("/office", CLIENT, &[]),
            ("/hidden", CLIENT, &[]),
            ("/closed", CLIENT, &[]),
            ("/team", CLIENT, &[("x-api-key", &acme)]),
            ("/team", CLIENT, &[("x-api-key", &other)]),
            ("/team", CLIENT, &[]),
        ],
    );
    let statuses: Vec<_> = answers.iter().map(|it| (it.code, it.denied)).collect();
    let expected = [
        (7, Some(403)),
        (0, None),
        (5, Some(404)),
        (14, Some(503)),
        (0, None),
        (7, Some(403)),
        (16, Some(401)),
    ];
    assert_eq!(statuses, expected);
    assert_eq!(answers[0].field("x-ratelimit-remaining"), None, "a denial consumes nothing");
    assert_eq!(answers[1].field("x-ratelimit-remaining"), Some("1"));
    assert_eq!(answers[3].field("retry-after"), Some("600"));
    let lines = gateway.access_lines(7);
    let denied_by: Vec<_> = lines.iter().map(|line| line["denied_by"].as_str()).collect();
    let names = [Some("office"), None, Some("hidden"), Some("closed"), None, Some("team"), None];
    assert_eq!(denied_by, names);
}

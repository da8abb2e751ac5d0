//! Keys of tokens that are fetched from an issuer: they arrive late, change, and stay in
//! use while the issuer is unavailable or sends something else.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::support::{
    Certificates, Client, Gateway, Origin, PATIENCE, Reserved, eventually, reserved,
};

/// An issuer of tokens, which publishes its keys.
struct Issuer {
    origin: Origin,
    answer: Arc<Mutex<String>>,
}

impl Issuer {
    /// Publishes the keys with these names, of those that tests have.
    fn new(kids: &[&str]) -> Self {
        let answer = Arc::new(Mutex::new(good(kids)));
        let said = Arc::clone(&answer);
        let origin = Origin::serving(move |stream, read| {
            use std::io::Write as _;
            while read().is_some() {
                let answer = said.lock().expect("no thread panics with it").clone();
                let _ = stream.write_all(answer.as_bytes());
                if !answer.contains("Content-Length") {
                    return;
                }
            }
        });
        Self { origin, answer }
    }

    fn says(&self, answer: String) {
        *self.answer.lock().expect("no thread panics with it") = answer;
    }

    fn url(&self) -> String {
        format!("http://{}/keys?of=all", self.origin.address())
    }

    fn asked(&self) -> usize {
        self.origin.received().len()
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn good(kids: &[&str]) -> String {
    ok(&set(kids).to_string())
}

/// Those of the test's keys that have these names.
fn set(kids: &[&str]) -> Value {
    let text = include_str!("../../crates/core/src/policy/jwt/test_keys/set.json");
    let mut set: Value = serde_json::from_str(text).expect("JSON");
    let keys = set["keys"].as_array_mut().expect("a list");
    keys.retain(|key| key["kid"].as_str().is_some_and(|kid| kids.contains(&kid)));
    set
}

/// A field with a token that is signed by one of the test's keys and names this one.
fn bearer(signed_by: &str, kid: &str) -> String {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/core/src/policy/jwt/test_keys/");
    let pem = std::fs::read(Path::new(directory).join(format!("{signed_by}.private.pem")));
    let pem = pem.expect("a key");
    let (algorithm, key) = match signed_by {
        "ed25519" => (Algorithm::EdDSA, EncodingKey::from_ed_pem(&pem)),
        _ => (Algorithm::ES256, EncodingKey::from_ec_pem(&pem)),
    };
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
    let token = encode(&header, &json!({ "sub": "ann" }), &key.expect("a key"));
    format!("Authorization: Bearer {}", token.expect("a token"))
}

/// Answers requests that have a good token.
fn demanding(jwks: &str) -> String {
    policed(jwks, "key: user, limit: unlimited, missing_key: unauthorized")
}

/// The same, with the algorithms of all keys of the test.
fn published(jwks: &str) -> String {
    demanding(jwks).replace("[ES256, EdDSA]", "[RS256, ES256, Ed25519]")
}

fn policed(jwks: &str, policy: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ user: {{ jwt: {{ jwks: {jwks}, algorithms: [ES256, EdDSA] }} }} }}\n\
         policies: {{ p: {{ {policy} }} }}\n\
         routes: [{{ path: /*, policies: [p], respond: {{ body: ok }} }}]\n"
    )
}

/// Starts a gateway that asks this issuer every second, and has its keys.
fn quick(issuer: &Issuer) -> Gateway {
    let jwks = format!("{{ url: \"{}\", refresh: 1s }}", issuer.url());
    let gateway = Gateway::start(&demanding(&jwks));
    eventually("keys come", || gateway.log().contains("a new key set is in use"));
    gateway
}

fn status(gateway: &Gateway, field: &str) -> u16 {
    gateway.client().get("/", &[field]).status
}

/// What both keys of the test are worth: one of Ed25519, and one of P-256.
fn statuses(gateway: &Gateway) -> [u16; 2] {
    ["ed25519", "p256"].map(|name| status(gateway, &bearer(name, name)))
}

#[test]
fn the_keys_of_an_issuer_are_used_from_the_start_and_change_with_it() {
    let issuer = Issuer::new(&["ed25519"]);
    let gateway = quick(&issuer);
    assert_eq!(statuses(&gateway), [200, 401], "{}", gateway.log());
    let asked = &issuer.origin.received()[0];
    assert_eq!(asked.line(), "GET /keys?of=all HTTP/1.1");
    assert!(asked.fields("accept")[0].starts_with("application/jwk-set+json"));
    issuer.says(good(&["ed25519", "p256", "rsa"]));
    eventually("a new key comes beside the old one", || statuses(&gateway) == [200, 200]);
    issuer.says(good(&["p256"]));
    eventually("the old one goes", || statuses(&gateway) == [401, 200]);
    assert!(gateway.log().contains("a new key set is in use"), "{}", gateway.log());
    assert!(!gateway.log().contains("of=all"), "a query may be a secret");
}

#[test]
fn a_short_form_names_a_url_or_a_file() {
    let issuer = Issuer::new(&["ed25519"]);
    let gateway = Gateway::start(&demanding(&format!("\"{}\"", issuer.url())));
    assert_eq!(statuses(&gateway), [200, 401]);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("set.json");
    std::fs::write(&file, set(&["p256"]).to_string()).expect("a file");
    gateway.reload(&demanding(file.to_str().expect("UTF-8")));
    assert_eq!(statuses(&gateway), [401, 200]);
}

#[test]
fn whatever_an_issuer_sends_its_last_valid_keys_stay_in_use() {
    let issuer = Issuer::new(&["ed25519"]);
    let gateway = quick(&issuer);
    let huge = format!("{{\"keys\":[{}]}}", "{},".repeat(100_000));
    let redirect =
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    for (answer, said) in [
        ("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_owned(), "has the status 500"),
        (redirect.to_owned(), "is a redirect (status 302), which is not followed"),
        (ok("<html>not a key set</html>"), "not a JSON Web Key Set: it has a mistake in line 1"),
        (ok("{\"keys\":[]}"), "the key set has no key for the algorithms"),
        (ok(&huge), "larger than 262144 bytes"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{".replace("Content-L", "content-l"),
            "ended",
        ),
        ("no HTTP at all".to_owned(), "the answer is not HTTP, or ended before it was whole"),
        (String::new(), "the answer is not HTTP, or ended before it was whole"),
    ] {
        issuer.says(answer);
        eventually(said, || gateway.log().contains(said));
        assert_eq!(statuses(&gateway), [200, 401], "{said}");
    }
    assert!(gateway.log().contains("the previous one stays in use"));
    issuer.says(good(&["p256"]));
    eventually("it is itself again", || statuses(&gateway) == [401, 200]);
}

/// The same holds for a set in a file.
#[test]
fn a_key_that_cannot_be_used_is_left_out_with_a_warning_that_names_it() {
    let mut odd = set(&["rsa", "ed25519"]);
    odd["keys"][0]["e"] = "AQ".into();
    let issuer = Issuer::new(&[]);
    issuer.says(ok(&odd.to_string()));
    let gateway = Gateway::start(&published(&format!("\"{}\"", issuer.url())));
    let said = "a key of the set is left out: no token that it has signed is valid";
    eventually(said, || gateway.log().contains(said));
    assert!(gateway.log().contains("key=\"\\\"rsa\\\"\""), "{}", gateway.log());
    assert!(gateway.log().contains("this is not an RSA key"), "{}", gateway.log());
    assert_eq!(statuses(&gateway), [200, 401]);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("set.json");
    std::fs::write(&file, odd.to_string()).expect("a file");
    gateway.reload(&published(file.to_str().expect("UTF-8")));
    let said = "warning: the key \"rsa\" of the set is left out: this is not an RSA key";
    assert!(gateway.log().contains(said), "{}", gateway.log());
    assert_eq!(statuses(&gateway), [200, 401]);
}

#[test]
fn what_is_wrong_with_a_key_set_is_in_the_status_and_the_metrics() {
    let mut odd = set(&["rsa", "ed25519"]);
    odd["keys"][0]["e"] = "AQ".into();
    let issuer = Issuer::new(&["ed25519"]);
    let jwks = format!("{{ url: \"{}\", refresh: 1s }}", issuer.url());
    let admin = "admin: { address: \"127.0.0.1:0\", tokens: [{ name: a, role: read, \
                 token: read-0123456789abcdef }], hosts: [gateway.test] }\n";
    let gateway = Gateway::start(&(published(&jwks) + admin));
    let get = |path: &str| {
        let mut client = Client::connect(gateway.addresses()[1]);
        client.get(path, &["Authorization: Bearer read-0123456789abcdef"])
    };
    let shown = format!("http://{}/keys", issuer.origin.address());
    for (answer, expected, is_fetched, left_out) in [
        (good(&["ed25519"]), None, 1, 0),
        (ok(&odd.to_string()), Some("key_left_out"), 1, 1),
        // The previous set stays in use, with the key that it lacks.
        (ok("<html>"), Some("key_set_not_fetched"), 0, 1),
        (good(&["rsa", "ed25519"]), None, 1, 0),
    ] {
        issuer.says(answer);
        let metrics = [
            format!("tollgate_key_set_last_fetch_successful{{set=\"{shown}\"}} {is_fetched}"),
            format!("tollgate_key_set_keys_left_out{{set=\"{shown}\"}} {left_out}"),
        ];
        eventually("it is known", || {
            thread::sleep(Duration::from_millis(250));
            let reasons = get("/v1/status").json()["reasons"].clone();
            let codes: Vec<&str> = reasons
                .as_array()
                .expect("a list")
                .iter()
                .filter_map(|it| it["code"].as_str())
                .collect();
            let text = get("/metrics").text();
            codes.contains(&expected.unwrap_or("")) == expected.is_some()
                && (expected.is_some() || codes.is_empty())
                && reasons.to_string().contains(&shown) == expected.is_some()
                && metrics.iter().all(|metric| text.contains(metric))
        });
    }
    assert_eq!(statuses(&gateway), [200, 401]);
}

#[test]
fn tokens_stay_valid_while_their_issuer_is_unavailable() {
    let issuer = Reserved::new();
    let publish = |answer: String| {
        use std::io::{Read as _, Write as _};
        let place = issuer.listen();
        thread::spawn(move || {
            let (mut stream, _) = place.accept().expect("a connection");
            reserved::close(place);
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        })
    };
    let once = publish(good(&["ed25519"]));
    let url = format!("{{ url: \"http://{}/keys\", refresh: 1s }}", issuer.address());
    let gateway = Gateway::start(&demanding(&url));
    once.join().expect("it was asked");
    eventually("the issuer is unreachable", || {
        gateway.log().contains("the server cannot be reached")
    });
    assert_eq!(statuses(&gateway), [200, 401]);
    publish(good(&["p256"]));
    eventually("it is back", || statuses(&gateway) == [401, 200]);
}

#[test]
fn until_the_first_keys_come_a_good_token_is_not_called_a_bad_one() {
    let unreachable = Reserved::new();
    let url = format!("\"http://{}/keys\"", unreachable.address());
    let gateway = Gateway::start(&demanding(&url));
    let mut client = gateway.client();
    let refused = client.get("/", &[&bearer("ed25519", "ed25519")]);
    assert_eq!(refused.status, 503);
    assert_eq!(refused.field("Retry-After"), Some("1"));
    assert_eq!(refused.json()["source"], "gateway");
    assert_eq!(client.get("/", &[]).status, 401, "there is no token");
    assert_eq!(client.get("/", &["Authorization: Bearer a.b.c"]).status, 401, "it is none");
    let lines = gateway.access_lines(1);
    assert_eq!(lines[0]["outcome"], "keys_away");
    assert!(gateway.log().contains("until then, no token is valid"), "{}", gateway.log());
}

#[test]
fn until_the_first_keys_come_a_policy_may_count_by_address() {
    let unreachable = Reserved::new();
    let url = format!("\"http://{}/keys\"", unreachable.address());
    let tokens = || [bearer("ed25519", "ed25519"), bearer("p256", "p256")];
    for (missing, expected) in [("ip", [200, 429]), ("skip", [200, 429]), ("deny", [503, 503])] {
        let policy = format!("key: user, limit: 1/day, missing_key: {missing}");
        let gateway = Gateway::start(&policed(&url, &policy));
        assert_eq!(tokens().map(|token| status(&gateway, &token)), expected, "{missing}");
    }
}

#[test]
fn a_slow_issuer_delays_a_start_for_a_bounded_time() {
    let issuer = Origin::serving(|_, read| {
        while read().is_some() {
            thread::sleep(PATIENCE);
        }
    });
    let url = format!("\"http://{}/keys\"", issuer.address());
    // It listens within the patience of the tests.
    let gateway = Gateway::start(&demanding(&url));
    assert_eq!(status(&gateway, &bearer("ed25519", "ed25519")), 503);
    let said = "there was no whole answer within 5s";
    eventually(said, || gateway.log().contains(said));
}

#[test]
fn an_unknown_key_is_fetched_early_and_a_flood_of_them_causes_few_fetches() {
    let issuer = Issuer::new(&["ed25519"]);
    let start = crate::support::now();
    let gateway = Gateway::start(&demanding(&format!("\"{}\"", issuer.url())));
    assert_eq!(statuses(&gateway), [200, 401]);
    issuer.says(good(&["ed25519", "p256"]));
    let mut client = gateway.client();
    let mut sent = 0;
    eventually("the new key comes long before ten minutes", || {
        for _ in 0..20 {
            sent += 1;
            let field = bearer("p256", &format!("made up {sent}"));
            assert_eq!(client.get("/", &[&field]).status, 401);
        }
        statuses(&gateway) == [200, 200]
    });
    for _ in 0..200 {
        client.get("/", &[&bearer("p256", "made up")]);
    }
    let most = start.elapsed().as_secs() / 10 + 2;
    let asked = issuer.asked();
    assert!(u64::try_from(asked).is_ok_and(|asked| asked <= most), "{asked} for {sent} tokens");
}

#[test]
fn a_reload_keeps_fetched_keys_and_refuses_an_unreachable_source() {
    let issuer = Issuer::new(&["ed25519"]);
    let jwks = format!("\"{}\"", issuer.url());
    let gateway = Gateway::start(&demanding(&jwks));
    assert_eq!((statuses(&gateway), issuer.asked()), ([200, 401], 1));
    gateway.reload(&format!("{}problem_json: false\n", demanding(&jwks)));
    assert_eq!((statuses(&gateway), issuer.asked()), ([200, 401], 1), "it is not fetched anew");
    let other = Issuer::new(&["p256"]);
    gateway.reload(&demanding(&format!("\"{}\"", other.url())));
    assert_eq!(statuses(&gateway), [401, 200]);
    let unreachable = Reserved::new();
    gateway.rewrite(&demanding(&format!("\"http://{}/keys\"", unreachable.address())));
    let refused = "not reloaded, the running configuration stays: the key set cannot be fetched";
    eventually(refused, || gateway.log().contains(refused));
    assert_eq!(statuses(&gateway), [401, 200]);
}

/// Regression: the set was dropped with each change of the way in which it is fetched, and the reload was
/// refused while the issuer was away.
#[test]
fn keys_stay_in_use_when_they_are_fetched_in_another_way() {
    let issuer = Issuer::new(&["ed25519"]);
    let gateway = quick(&issuer);
    issuer.says("HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n".to_owned());
    let every = |time: &str| {
        let jwks = format!("{{ url: \"{}\", refresh: {time} }}", issuer.url());
        demanding(&jwks).replace("body: ok", &format!("body: \"{time}\""))
    };
    gateway.reload(&every("2s"));
    let field = bearer("ed25519", "ed25519");
    let answer = gateway.client().get("/", &[&field]);
    assert_eq!((answer.status, &*answer.text()), (200, "2s"));
    eventually("it is told", || gateway.log().contains("the previous one stays in use"));
    let asked = issuer.asked();
    eventually("it is still asked", || issuer.asked() > asked + 1);
    // A reload that fails leaves the set that is in use as it is.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    let more = format!("listeners: [{{ address: \"{address}\" }}, {{");
    gateway.rewrite(&every("3s").replacen("listeners: [{", &more, 1));
    eventually("it is refused", || gateway.log().contains("another program has this port"));
    issuer.says(good(&["p256"]));
    eventually("the new keys are in use", || statuses(&gateway) == [401, 200]);
}

#[test]
fn an_issuer_is_verified_by_its_certificate() {
    let made = Certificates::temporary("127.0.0.1");
    let publishing = format!(
        "listeners: [{{ address: \"127.0.0.1:0\", tls: {{ certificates: [{{ cert: {}, key: {} }}] }} }}]\n\
         routes: [{{ path: /keys, respond: {{ body: '{}' }} }}]\n",
        made.server().display(),
        made.server_key().display(),
        set(&["ed25519"])
    );
    let issuer = Gateway::start(&publishing);
    let from = |ca: &Path, host: &str| {
        let port = issuer.addresses()[0].port();
        let jwks = format!("{{ url: \"https://{host}:{port}/keys\", ca: {} }}", ca.display());
        Gateway::start(&demanding(&jwks))
    };
    assert_eq!(statuses(&from(&made.ca(), "127.0.0.1")), [200, 401]);
    let others = Certificates::temporary("127.0.0.1");
    for (ca, host) in [(others.ca(), "127.0.0.1"), (made.ca(), "localhost")] {
        let gateway = from(&ca, host);
        assert_eq!(statuses(&gateway), [503, 503]);
        let said = "the server shows no certificate that is trusted here";
        eventually(said, || gateway.log().contains(said));
    }
}

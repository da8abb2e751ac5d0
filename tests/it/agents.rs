//! Agents that sign their requests: the configuration on their page, with an agent of the test.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};
use tollgate_core::time::Clock;

use crate::support::{Gateway, Origin, admin_text, eventually};

const READ: &str = "read-0123456789abcdef";
const DIRECTORY: &str = "/.well-known/http-message-signatures-directory";
const HOST: &str = "gateway.test";

/// An agent, which publishes its keys.
struct Agent {
    origin: Origin,
    answer: Arc<Mutex<String>>,
}

impl Agent {
    fn new(kids: &[&str]) -> Self {
        let answer = Arc::new(Mutex::new(published(kids)));
        let said = Arc::clone(&answer);
        let origin = Origin::serving(move |stream, read| {
            use std::io::Write as _;
            while read().is_some() {
                let body = said.lock().expect("no thread panics with it").clone();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { origin, answer }
    }

    fn name(&self) -> String {
        format!("http://{}", self.origin.address())
    }

    fn publishes(&self, text: String) {
        *self.answer.lock().expect("no thread panics with it") = text;
    }

    /// The fields of a request that it signs, with a key of this name.
    fn signed(&self, kid: &str) -> Vec<String> {
        self.signed_as(&self.name(), kid, HOST)
    }

    fn signed_as(&self, name: &str, kid: &str, authority: &str) -> Vec<String> {
        let created = Clock::System.wall().as_secs();
        let expires = created + 300;
        let input = format!(
            "(\"@authority\" \"signature-agent\";key=\"sig1\");created={created};\
             expires={expires};keyid=\"{kid}\";tag=\"web-bot-auth\""
        );
        let base = format!(
            "\"@authority\": {authority}\n\"signature-agent\";key=\"sig1\": \"{name}\"\n\
             \"@signature-params\": {input}"
        );
        let path = "crates/core/src/policy/jwt/test_keys/ed25519.private.pem";
        let pem = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a key");
        let key = EncodingKey::from_ed_pem(&pem).expect("a key");
        let signature = crypto::sign(base.as_bytes(), &key, Algorithm::EdDSA).expect("a signature");
        let signature = STANDARD.encode(URL_SAFE_NO_PAD.decode(signature).expect("base64"));
        vec![
            format!("Signature-Agent: sig1=\"{name}\""),
            format!("Signature-Input: sig1={input}"),
            format!("Signature: sig1=:{signature}:"),
        ]
    }
}

/// The key of the test under these names.
fn published(kids: &[&str]) -> String {
    let text = include_str!("../../crates/core/src/policy/jwt/test_keys/set.json");
    let set: Value = serde_json::from_str(text).expect("JSON");
    let keys = set["keys"].as_array().expect("a list");
    let key = keys.iter().find(|key| key["kid"] == "ed25519").expect("it is there");
    let named = |kid: &&str| {
        let mut key = key.clone();
        key["kid"] = json!(kid);
        key
    };
    json!({ "keys": kids.iter().map(named).collect::<Vec<_>>() }).to_string()
}

/// The configuration of the page for this agent, with an admin listener.
fn page(agent: &Agent) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/agents.md");
    let text = fs::read_to_string(path).expect("it is there");
    let block = text.split("```yaml\n").nth(1).and_then(|it| it.split("```").next());
    let yaml = block.expect("the page has one").replace("127.0.0.1:8080", "127.0.0.1:0");
    let yaml = yaml.replace("https://bot.example", &agent.name());
    let yaml = yaml.replace("    invite: true", "    refresh: 1s\n    invite: true");
    format!(
        "{yaml}runtime: {{ workers: 1 }}\nadmin: {{ address: \"127.0.0.1:0\", tokens: [\
         {{ name: a, role: read, token: {READ} }}], hosts: [gateway.test] }}\n"
    )
}

fn start(agent: &Agent) -> Gateway {
    let gateway = Gateway::start(&page(agent));
    eventually("its keys come", || gateway.log().contains("a new key set is in use"));
    gateway
}

fn get(gateway: &Gateway, path: &str, fields: &[String]) -> crate::support::Response {
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    gateway.client().get(path, &fields)
}

fn admin(gateway: &Gateway, path: &str) -> String {
    admin_text(gateway.addresses()[1], path, &format!("Authorization: Bearer {READ}"))
}

#[test]
fn the_file_of_the_page_limits_admits_and_logs_agents() {
    let agent = Agent::new(&["key-1"]);
    let gateway = start(&agent);
    let asked = &agent.origin.received()[0];
    assert_eq!(asked.line(), format!("GET {DIRECTORY} HTTP/1.1"));
    let accepted = asked.fields("accept")[0].to_owned();
    assert!(
        accepted.starts_with("application/http-message-signatures-directory+json"),
        "{accepted}"
    );
    let signed = get(&gateway, "/feed", &agent.signed("key-1"));
    assert_eq!(signed.status, 200, "{signed:?}\n{}", gateway.log());
    assert_eq!(signed.number("X-Ratelimit-Limit"), 600);
    assert_eq!(get(&gateway, "/feed", &[]).status, 403);
    // Another key, another authority, and another agent that says that it is this one.
    for wrong in [
        agent.signed("key-2"),
        agent.signed_as("https://other.example", "key-1", HOST),
        agent.signed_as(&agent.name(), "key-1", "other.example"),
    ] {
        assert_eq!(get(&gateway, "/feed", &wrong).status, 403, "{wrong:?}");
    }
    let lines = gateway.access_lines(5);
    assert_eq!(lines[0]["agent"], json!(agent.name()));
    assert!(lines[1..].iter().all(|line| line.get("agent").is_none()), "{lines:?}");
}

#[test]
fn a_refusal_invites_to_sign() {
    let agent = Agent::new(&["key-1"]);
    let gateway = start(&agent);
    let mut last = get(&gateway, "/", &[]);
    eventually("the limit is reached", || {
        last = get(&gateway, "/", &[]);
        last.status == 429
    });
    let invitation = last.field("Accept-Signature").expect("an invitation");
    assert!(invitation.contains("tag=\"web-bot-auth\""), "{invitation}");
    let admitted = get(&gateway, "/feed", &agent.signed("key-1"));
    assert_eq!((admitted.status, admitted.field("Accept-Signature")), (200, None));
    gateway.reload(&page(&agent).replace("invite: true", "invite: false"));
    eventually("the limit is reached again", || {
        last = get(&gateway, "/", &[]);
        last.status == 429
    });
    assert_eq!(last.field("Accept-Signature"), None);
}

#[test]
fn keys_of_an_agent_change_with_its_directory_and_stay_while_it_is_broken() {
    let agent = Agent::new(&["key-1"]);
    let gateway = start(&agent);
    agent.publishes(published(&["key-2"]));
    eventually("the new key is known", || {
        get(&gateway, "/feed", &agent.signed("key-2")).status == 200
    });
    assert_eq!(get(&gateway, "/feed", &agent.signed("key-1")).status, 403, "it is removed");
    agent.publishes("<html>".to_owned());
    let set = format!("{}{DIRECTORY}", agent.name());
    eventually("it is told", || {
        let status = admin(&gateway, "/v1/status");
        status.contains("key_set_not_fetched") && status.contains(&set)
    });
    let metric = format!("tollgate_key_set_last_fetch_successful{{set=\"{set}\"}} 0");
    assert!(admin(&gateway, "/metrics").contains(&metric), "{metric}");
    assert_eq!(get(&gateway, "/feed", &agent.signed("key-2")).status, 200);
    // A reload keeps the keys, although they cannot be fetched now.
    gateway.reload(&page(&agent).replace("600/minute", "500/minute"));
    let kept = get(&gateway, "/feed", &agent.signed("key-2"));
    assert_eq!((kept.status, kept.number("X-Ratelimit-Limit")), (200, 500));
    // So does one that changes how they are fetched.
    let later =
        page(&agent).replace("600/minute", "400/minute").replace("refresh: 1s", "refresh: 2s");
    gateway.reload(&later);
    let kept = get(&gateway, "/feed", &agent.signed("key-2"));
    assert_eq!((kept.status, kept.number("X-Ratelimit-Limit")), (200, 400));
    agent.publishes(published(&["key-3"]));
    eventually("the new key is known", || {
        get(&gateway, "/feed", &agent.signed("key-3")).status == 200
    });
}

#[test]
fn a_class_joins_agents() {
    let agent = Agent::new(&["key-1"]);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("classes.yaml");
    let class = format!("- {{ name: partners, agents: [\"{}\"] }}\n", agent.name());
    fs::write(&file, class).expect("it can be written");
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         runtime: {{ workers: 1 }}\n\
         client:\n  agents: {{ allow: [\"{}\"] }}\n  classes: {{ file: {} }}\n\
         policies: {{ p: {{ key: class, limit: 5/minute, missing_key: deny }} }}\n\
         routes: [{{ path: /*, policies: [p], respond: {{ body: ok }} }}]\n",
        agent.name(),
        file.display()
    ));
    eventually("its keys come", || gateway.log().contains("a new key set is in use"));
    assert_eq!(get(&gateway, "/", &agent.signed("key-1")).status, 200, "{}", gateway.log());
    assert_ne!(get(&gateway, "/", &[]).status, 200);
    assert_eq!(gateway.access_lines(1)[0]["class"], "partners");
}

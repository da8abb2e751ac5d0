//! Signatures of agents: the test vector of RFC 9421, each rule, and changed messages.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;
use serde_json::json;
use sfv::FieldType as _;

use super::message::normal_authority;
use super::*;
use crate::policy::UsableKeys;
use crate::request::Fields;

const NAME: &str = "https://bot.example";
const NOW: i64 = 1_795_246_126;
/// `keyid` of the first key.
const KEY: &str = "key-1";
const COVERED: &str = r#"("@authority" "signature-agent";key="sig1")"#;

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

/// The keys of a directory: names and seeds.
fn keys(members: &[(Option<&str>, u8)]) -> Arc<KeySet> {
    let member = |(kid, seed): &(Option<&str>, u8)| {
        let x = URL_SAFE_NO_PAD.encode(pair(*seed).public_key());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x })
    };
    let document = json!({ "keys": members.iter().map(member).collect::<Vec<_>>() });
    let set = KeySet::new();
    let text = document.to_string();
    set.replace(UsableKeys::read(text.as_bytes(), &[Algorithm::EdDSA]).unwrap().keys);
    Arc::new(set)
}

fn agents() -> Agents {
    let agent = |name: &str, keys| Agent { name: name.into(), keys };
    Agents::new(
        vec![
            agent("https://other.example", keys(&[(Some(KEY), 9)])),
            agent(NAME, keys(&[(Some(KEY), 1), (Some("key-2"), 2)])),
            agent("https://late.example", Arc::new(KeySet::new())),
            agent("https://nameless.example", keys(&[(None, 3), (None, 4)])),
        ],
        false,
    )
}

/// A request that a test changes before or after it is signed.
#[derive(Clone, Debug)]
struct Request {
    authority: String,
    method: Method,
    path: String,
    query: Option<String>,
    fields: HeaderMap,
}

impl Request {
    fn new(agent: &str) -> Self {
        let mut fields = HeaderMap::new();
        fields.insert("signature-agent", agent.parse().unwrap());
        Self {
            authority: "shop.example".into(),
            method: Method::GET,
            path: "/a".into(),
            query: None,
            fields,
        }
    }

    fn message(&self) -> Message<'_> {
        Message {
            authority: normal_authority(&self.authority),
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            fields: Fields::of(&self.fields),
        }
    }

    /// Adds the signature of a key under a label.
    fn sign(&mut self, label: &str, input: &str, seed: u8) {
        let parsed: Dictionary = Parser::new(&format!("{label}={input}")).parse().unwrap();
        let Some(ListEntry::InnerList(covered)) = parsed.get(label) else { panic!("no list") };
        let base = base::signature_base(covered, &self.message()).unwrap();
        let signature = STANDARD.encode(pair(seed).sign(&base));
        self.fields.append("signature-input", format!("{label}={input}").parse().unwrap());
        self.fields.append("signature", format!("{label}=:{signature}:").parse().unwrap());
    }

    fn agent(&self) -> Result<String, AgentFault> {
        self.agent_at(NOW)
    }

    fn agent_at(&self, secs: i64) -> Result<String, AgentFault> {
        let now = Timestamp::from_micros(u64::try_from(secs).unwrap() * 1_000_000);
        agents().identify(&self.message(), now).map(|name| name.to_string())
    }
}

fn input(covered: &str, key: &str) -> String {
    let expires = NOW + 60;
    format!("{covered};created={NOW};expires={expires};keyid=\"{key}\";tag=\"web-bot-auth\"")
}

/// A request that the agent has signed.
fn signed() -> Request {
    let mut request = Request::new(&format!("sig1=\"{NAME}\""));
    request.sign("sig1", &input(COVERED, KEY), 1);
    request
}

/// RFC 9421, appendix B.2.6. Its signature has no tag and covers no agent, so only the base and the
/// key are compared.
#[test]
fn the_test_vector_of_the_standard_is_right() {
    let mut fields = HeaderMap::new();
    for (name, value) in [
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("content-type", "application/json"),
        ("content-length", "18"),
    ] {
        fields.insert(name, HeaderValue::from_static(value));
    }
    let message = Message {
        authority: "example.com".into(),
        method: &Method::POST,
        path: "/foo",
        query: Some("param=Value&Pet=dog"),
        fields: Fields::of(&fields),
    };
    let input = r#"sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519""#;
    let parsed: Dictionary = Parser::new(input).parse().unwrap();
    let Some(ListEntry::InnerList(covered)) = parsed.get("sig-b26") else { panic!("no list") };
    let base = base::signature_base(covered, &message).unwrap();
    let expected = "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n\
        \"@authority\": example.com\n\"content-type\": application/json\n\"content-length\": 18\n\
        \"@signature-params\": (\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\")\
        ;created=1618884473;keyid=\"test-key-ed25519\"";
    assert_eq!(String::from_utf8(base.clone()).unwrap(), expected);
    let signature = STANDARD
        .decode("wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==")
        .unwrap();
    let key = json!({ "keys": [{
        "kty": "OKP", "crv": "Ed25519", "kid": "test-key-ed25519",
        "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs",
    }] });
    let keys = UsableKeys::read(key.to_string().as_bytes(), &[Algorithm::EdDSA]).unwrap().keys;
    let signed = Signed { label: "sig-b26", covered, signature: Some(&signature) };
    assert!(signed.is_by(&keys[0], &base));
    assert!(!signed.is_by(&keys[0], &[&base[..], b"x"].concat()));
}

#[test]
fn a_signed_request_has_its_agent() {
    assert_eq!(signed().agent().unwrap(), NAME);
    // The earlier form of the field, with one name for all signatures.
    let mut earlier = Request::new(&format!("\"{NAME}\""));
    earlier.sign("sig1", &input(r#"("@authority" "signature-agent")"#, KEY), 1);
    assert_eq!(earlier.agent().unwrap(), NAME);
    // A proxy has added a signature of its own, and has given another label to that of the agent.
    let mut relabelled = Request::new(&format!("sig1=\"{NAME}/\""));
    relabelled.sign("proxy", r#"("@method");created=1;keyid="p";tag="proxy""#, 7);
    relabelled.sign("agent", &input(COVERED, KEY), 1);
    assert_eq!(relabelled.agent().unwrap(), NAME);
    let mut nameless = Request::new("sig1=\"https://nameless.example\"");
    nameless.sign("sig1", &input(COVERED, "any"), 4);
    assert_eq!(nameless.agent().unwrap(), "https://nameless.example");
}

#[test]
fn what_is_not_proved_is_no_agent() {
    let with = |agent: &str, covered: &str, key: &str, seed| {
        let mut request = Request::new(agent);
        request.sign("sig1", &input(covered, key), seed);
        request.agent().unwrap_err()
    };
    let named = format!("sig1=\"{NAME}\"");
    assert_eq!(Request::new(&named).agent(), Err(AgentFault::Unsigned));
    assert_eq!(with(&named, COVERED, KEY, 2), AgentFault::Wrong);
    assert_eq!(with(&named, COVERED, "key-3", 1), AgentFault::UnknownKey);
    assert_eq!(with("sig1=\"https://evil.example\"", COVERED, KEY, 1), AgentFault::NotListed);
    assert_eq!(with("sig1=\"https://late.example\"", COVERED, KEY, 1), AgentFault::NoKeys);
    // A key of one agent proves no other one, whatever its name is.
    assert_eq!(with("sig1=\"https://other.example\"", COVERED, KEY, 1), AgentFault::Wrong);
    assert_eq!(with(&named, r#"("@authority")"#, KEY, 1), AgentFault::NotCovered);
    assert_eq!(with(&named, r#"("signature-agent";key="sig1")"#, KEY, 1), AgentFault::NotCovered);
    let card = format!("sig1=\"{NAME}\";type=cimd");
    assert_eq!(with(&card, COVERED, KEY, 1), AgentFault::Unsupported);
    // The name that is covered is not the one that is taken from another member.
    let two = format!("sig1=\"https://evil.example\", sig2=\"{NAME}\"");
    assert_eq!(with(&two, COVERED, KEY, 1), AgentFault::NotListed);
    let mut unsigned = signed();
    unsigned.fields.remove("signature");
    assert_eq!(unsigned.agent(), Err(AgentFault::Malformed));
}

#[test]
fn a_signature_is_valid_for_a_bounded_time() {
    let at = |created: i64, expires: i64| {
        let mut request = Request::new(&format!("sig1=\"{NAME}\""));
        let input = format!(
            "{COVERED};created={created};expires={expires};keyid=\"{KEY}\";tag=\"web-bot-auth\""
        );
        request.sign("sig1", &input, 1);
        request.agent()
    };
    assert!(at(NOW - 10, NOW + 3600).is_ok());
    assert!(at(NOW + 30, NOW + 60).is_ok(), "clocks differ");
    assert_eq!(at(NOW + 31, NOW + 60), Err(AgentFault::NotNow));
    assert_eq!(at(NOW - 10, NOW), Err(AgentFault::NotNow));
    assert_eq!(at(NOW - 10, NOW + 3631), Err(AgentFault::NotNow), "too long");
    assert_eq!(at(0, 999_999_999_999_999), Err(AgentFault::NotNow));
    let mut forever = Request::new(&format!("sig1=\"{NAME}\""));
    forever.sign("sig1", &format!("{COVERED};keyid=\"{KEY}\";tag=\"web-bot-auth\""), 1);
    assert_eq!(forever.agent(), Err(AgentFault::Malformed), "it does not expire");
}

#[test]
fn an_unknown_key_asks_for_a_fetch_of_the_keys_of_its_agent() {
    let list = agents();
    let mut request = Request::new(&format!("sig1=\"{NAME}\""));
    request.sign("sig1", &input(COVERED, "new"), 1);
    let agent = list.iter().find(|it| &*it.name == NAME).unwrap();
    let refresh = agent.keys.refresh();
    let now = Timestamp::from_micros(u64::try_from(NOW).unwrap() * 1_000_000);
    assert_eq!(list.identify(&request.message(), now), Err(AgentFault::UnknownKey));
    let requested = refresh.requested();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime
        .block_on(async {
            tokio::time::timeout(std::time::Duration::from_secs(30), requested).await
        })
        .unwrap();
}

#[test]
fn everything_is_bounded() {
    let mut long = signed();
    long.fields.append("signature-input", format!("a=\"{}\"", "x".repeat(4096)).parse().unwrap());
    assert_eq!(long.agent(), Err(AgentFault::TooLarge));
    let mut many = Request::new(&format!("sig1=\"{NAME}\""));
    for label in 0..9 {
        many.sign(&format!("l{label}"), r#"("@method")"#, 1);
    }
    assert_eq!(many.agent(), Err(AgentFault::TooLarge));
    // Two are checked, and the third one is not.
    let mut three = Request::new(&format!("sig1=\"{NAME}\""));
    for (label, seed) in [("a", 5), ("b", 6), ("sig1", 1)] {
        three.sign(label, &input(COVERED, KEY), seed);
    }
    assert_eq!(three.agent(), Err(AgentFault::TooLarge));
    let names: String = (0..17).map(|it| format!("\"x-{it}\" ")).collect();
    let covered = format!("({names}\"@authority\" \"signature-agent\";key=\"sig1\")");
    let mut wide = Request::new(&format!("sig1=\"{NAME}\""));
    wide.fields
        .insert("signature-input", format!("sig1={}", input(&covered, KEY)).parse().unwrap());
    wide.fields.insert("signature", "sig1=:AAAA:".parse().unwrap());
    assert_eq!(wide.agent(), Err(AgentFault::TooLarge));
    let more =
        (0..=MAX_AGENTS).map(|it| Agent { name: it.to_string().into(), keys: Arc::default() });
    assert_eq!(Agents::new(more.collect(), false).iter().count(), MAX_AGENTS);
}

/// An agent that does what the invitation says is known.
#[test]
fn an_invitation_asks_for_what_is_needed() {
    assert_eq!(agents().invitation(), None);
    let invitation = Agents::new(Vec::new(), true).invitation().unwrap();
    let asked: Dictionary = Parser::new(invitation).parse().unwrap();
    let Some(ListEntry::InnerList(list)) = asked.get("sig1") else { panic!("no list") };
    let mut wanted = list.clone();
    for (name, value) in [("created", NOW), ("expires", NOW + 60)] {
        assert_eq!(list.params.get(name), Some(&sfv::BareItem::Boolean(true)));
        wanted.params[name] = sfv::BareItem::Integer(value.try_into().unwrap());
    }
    let key = sfv::BareItem::String(KEY.to_owned().try_into().unwrap());
    wanted.params.insert("keyid".to_owned().try_into().unwrap(), key);
    let input = vec![ListEntry::InnerList(wanted)].serialize().unwrap();
    let mut request = Request::new(&format!("sig1=\"{NAME}\""));
    request.sign("sig1", &input, 1);
    assert_eq!(request.agent().unwrap(), NAME);
}

#[test]
fn an_authority_has_one_form() {
    for (written, normal) in [
        ("Shop.Example:443", "shop.example"),
        ("a:80", "a"),
        ("a:8080", "a:8080"),
        ("[::1]", "[::1]"),
    ] {
        assert_eq!(normal_authority(written), normal);
    }
}

proptest! {
    /// A change of anything that is covered makes the signature wrong, and other changes do not.
    #[test]
    fn what_is_covered_cannot_be_changed(
        which in prop::sample::subsequence(vec!["\"@method\"", "\"@path\"", "\"@query\"", "\"x-a\""], 0..=4),
        changed in 0_usize..6,
        query in prop::option::of("[a-z=&]{0,8}"),
        value in "[ -~]{0,12}",
    ) {
        let mut request = Request::new(&format!("sig1=\"{NAME}\""));
        request.query = query;
        request.fields.insert("x-a", HeaderValue::from_str(&value).unwrap());
        let covered = format!("({} \"@authority\" \"signature-agent\";key=\"sig1\")", which.join(" "));
        request.sign("sig1", &input(&covered, KEY), 1);
        prop_assert_eq!(request.agent(), Ok(NAME.to_owned()));
        let (name, is_covered) = match changed {
            0 => { request.method = Method::POST; ("\"@method\"", false) }
            1 => { request.path.push('b'); ("\"@path\"", false) }
            2 => { request.query = Some("other~".into()); ("\"@query\"", false) }
            3 => { request.fields.append("x-a", HeaderValue::from_static("b")); ("\"x-a\"", false) }
            4 => { request.authority.push('b'); ("", true) }
            _ => {
                let names = "sig1=\"https://other.example\"";
                request.fields.insert("signature-agent", HeaderValue::from_static(names));
                ("", true)
            }
        };
        let is_covered = is_covered || which.contains(&name);
        prop_assert_eq!(request.agent().is_err(), is_covered);
    }

    /// No bytes of a client cause a panic, and none without a signature prove an agent.
    #[test]
    fn arbitrary_fields_prove_nothing(
        input in "[ -~]{0,200}", signature in "[ -~]{0,80}", agent in "[ -~]{0,80}",
    ) {
        let mut request = signed();
        request.fields.remove("signature");
        for (name, value) in [("signature-input", input), ("signature", signature), ("signature-agent", agent)] {
            request.fields.insert(name, HeaderValue::from_str(&value).unwrap());
        }
        prop_assert!(request.agent().is_err());
    }

    /// What is read and written again is the same list, so that the base is what the agent has signed.
    #[test]
    fn parameters_are_written_as_they_were_read(created in 0..2_000_000_000_i64, nonce in "[ !#-\\[\\]-~]{0,20}") {
        let text = format!("sig1={COVERED};created={created};nonce=\"{nonce}\";tag=\"web-bot-auth\"");
        let parsed: Dictionary = Parser::new(&text).parse().unwrap();
        prop_assert_eq!(parsed.serialize().unwrap(), text);
    }
}

//! Requests that a known key has signed, over whatever their clients say.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, Method};
use jsonwebtoken::Algorithm;
use serde_json::json;
use sfv::{Dictionary, ListEntry, Parser};

use super::{Agent, Agents, Message, base};
use crate::policy::{KeySet, UsableKeys};
use crate::request::Fields;
use crate::time::Timestamp;

const NAME: &str = "https://bot.example";
/// 2026-11-21T07:28:46Z.
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[1; 32]).expect("a key")
}

fn known() -> Agents {
    let x = URL_SAFE_NO_PAD.encode(pair().public_key());
    let set = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x }] });
    let read = UsableKeys::read(set.to_string().as_bytes(), &[Algorithm::EdDSA]);
    let keys = KeySet::new();
    keys.replace(read.expect("a set").keys);
    Agents::new(vec![Agent { name: NAME.into(), keys: Arc::new(keys) }], false)
}

/// `Signature-Input`, `Signature-Agent` and a field in one line each. All signatures that the first
/// line describes are by the key of the agent.
pub fn agents(input: &[u8]) {
    static AGENTS: LazyLock<Agents> = LazyLock::new(known);
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut fields = HeaderMap::new();
    for name in ["signature-input", "signature-agent", "x-a"] {
        let line = lines.next().unwrap_or_default();
        let Ok(value) = HeaderValue::from_bytes(line) else { return };
        fields.insert(name, value);
    }
    let signed = |fields: &HeaderMap| {
        let message = Message {
            authority: "shop.example".into(),
            method: &Method::GET,
            path: "/a",
            query: None,
            fields: Fields::of(fields),
        };
        AGENTS.identify(&message, NOW).map(|name| name.to_string()).ok()
    };
    assert_eq!(signed(&fields), None, "a request without a signature has no agent");
    let Ok(inputs) = Parser::new(fields["signature-input"].as_bytes()).parse::<Dictionary>() else {
        return;
    };
    let mut signatures = Vec::new();
    for (label, entry) in &inputs {
        let ListEntry::InnerList(covered) = entry else { continue };
        let message = Message {
            authority: "shop.example".into(),
            method: &Method::GET,
            path: "/a",
            query: None,
            fields: Fields::of(&fields),
        };
        let Ok(base) = base::signature_base(covered, &message) else { continue };
        let signature = STANDARD.encode(pair().sign(&base));
        signatures.push(format!("{}=:{signature}:", label.as_str()));
    }
    let Ok(value) = HeaderValue::from_str(&signatures.join(", ")) else { return };
    fields.insert("signature", value);
    let Some(name) = signed(&fields) else { return };
    assert_eq!(name, NAME, "only a listed agent is known");
    let text = String::from_utf8_lossy(fields["signature-input"].as_bytes()).into_owned();
    for part in ["\"@authority\"", "\"signature-agent\"", "web-bot-auth", "expires=", "created="] {
        assert!(text.contains(part), "{part} is needed");
    }
    // What is covered cannot be changed.
    fields.insert("signature-agent", HeaderValue::from_static("sig1=\"https://other.example\""));
    assert_eq!(signed(&fields), None);
}

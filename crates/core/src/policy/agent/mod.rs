//! Signed agents: programs that sign their requests, and publish their keys below a domain of theirs
//! (draft-ietf-webbotauth-httpsig-protocol-01, a profile of RFC 9421).
//!
//! An agent is the origin in `Signature-Agent`, such as `https://bot.example`. The name is proved, not
//! claimed: it is taken only if it is listed, and a key that this origin publishes has signed the
//! authority of the request and the name. Only Ed25519 is used. A signature has the tag
//! `web-bot-auth`, and its validity ends within an hour. Until then it can be replayed.
//!
//! A request without a right signature has no agent. It is not refused: signatures can break on the
//! way, and a client without one is an ordinary client.
//!
//! This module is pure. What a request makes it do is bounded: see [`bounds`].

mod base;
mod bounds;
mod fault;
mod field;
#[cfg(any(test, feature = "testing"))]
pub(super) mod fuzzing;
mod message;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, crypto};
use sfv::{Dictionary, InnerList, ListEntry, Parser};

pub use self::bounds::MAX_AGENTS;
use self::bounds::{
    MAX_LIFETIME_SECS, MAX_NAMELESS_KEYS, MAX_SIGNATURES, MAX_SKEW_SECS, MAX_VERIFIED,
};
pub use self::fault::AgentFault;
use self::field::SignatureAgent;
pub(super) use self::message::Message;
use self::message::{SIGNATURE, SIGNATURE_AGENT, SIGNATURE_INPUT};
use super::{KeySet, VerifyingKey};
use crate::time::Timestamp;

/// The tag of the signatures of agents.
const TAG: &str = "web-bot-auth";
/// The only algorithm, as `alg` of a signature names it.
const ALGORITHM: &str = "ed25519";

/// What a signature must have.
const INVITATION: &str =
    r#"sig1=("@authority" "signature-agent";key="sig1");created;expires;tag="web-bot-auth""#;

/// The agents that are known, each with its keys.
#[derive(Debug)]
pub struct Agents {
    list: Box<[Agent]>,
    invites: bool,
}

/// One agent.
#[derive(Debug)]
pub struct Agent {
    /// Its origin: `https://bot.example`, without a path.
    pub name: Arc<str>,
    /// The keys that this origin publishes.
    pub keys: Arc<KeySet>,
}

impl Agents {
    /// These agents, of which the first [`MAX_AGENTS`] are used. `invites`: clients that are refused
    /// are asked to sign their requests.
    pub fn new(agents: Vec<Agent>, invites: bool) -> Self {
        let mut agents = agents;
        agents.truncate(MAX_AGENTS);
        Self { list: agents.into(), invites }
    }

    /// What asks clients that are refused to sign their requests, if they are asked: the value of
    /// `Accept-Signature` (RFC 9421, section 5.1).
    pub const fn invitation(&self) -> Option<&'static str> {
        if self.invites { Some(INVITATION) } else { None }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.list.iter()
    }

    /// The name of the agent that has signed a message.
    ///
    /// # Errors
    /// Why no agent is proved. If the message has several signatures, this is about the last one.
    pub(super) fn identify(
        &self,
        message: &Message<'_>,
        now: Timestamp,
    ) -> Result<&Arc<str>, AgentFault> {
        if !message.fields.has(&SIGNATURE_INPUT) {
            return Err(AgentFault::Unsigned);
        }
        let inputs: Dictionary = parsed(&message.field(&SIGNATURE_INPUT)?)?;
        if inputs.len() > MAX_SIGNATURES {
            return Err(AgentFault::TooLarge);
        }
        let signatures: Dictionary = parsed(&message.field(&SIGNATURE)?)?;
        let agents = SignatureAgent::parse(&message.field(&SIGNATURE_AGENT)?)?;
        let mut fault = AgentFault::Unsigned;
        let mut verified = 0;
        for (label, entry) in &inputs {
            let ListEntry::InnerList(covered) = entry else { continue };
            if text(covered, "tag") != Some(TAG) {
                continue;
            }
            if verified == MAX_VERIFIED {
                return Err(AgentFault::TooLarge);
            }
            verified += 1;
            let signature = match signatures.get(label) {
                Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence(),
                _ => None,
            };
            let signed = Signed { label: label.as_str(), covered, signature };
            match self.signer(&signed, &agents, message, now) {
                Ok(agent) => return Ok(&agent.name),
                Err(why) => fault = why,
            }
        }
        Err(fault)
    }

    /// The agent of one signature.
    fn signer(
        &self,
        signed: &Signed<'_>,
        agents: &SignatureAgent,
        message: &Message<'_>,
        now: Timestamp,
    ) -> Result<&Agent, AgentFault> {
        signed.check_times(now)?;
        let name = agents.covered_by(signed.covered, signed.label)?;
        if !base::covers(signed.covered, "@authority") {
            return Err(AgentFault::NotCovered);
        }
        let agent = self.list.iter().find(|it| *it.name == *name).ok_or(AgentFault::NotListed)?;
        let base = base::signature_base(signed.covered, message)?;
        let keys = agent.keys.keys();
        if keys.generation == 0 {
            return Err(AgentFault::NoKeys);
        }
        let mut candidates = signed.keys(&keys.keys).peekable();
        if candidates.peek().is_none() {
            agent.keys.request_refresh();
            return Err(AgentFault::UnknownKey);
        }
        if candidates.any(|key| signed.is_by(key, &base)) {
            Ok(agent)
        } else {
            Err(AgentFault::Wrong)
        }
    }
}

/// One signature of a message.
struct Signed<'m> {
    label: &'m str,
    /// What it covers, with its parameters.
    covered: &'m InnerList,
    signature: Option<&'m [u8]>,
}

impl Signed<'_> {
    /// Whether the signature is valid now, and not for too long.
    fn check_times(&self, now: Timestamp) -> Result<(), AgentFault> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let number = |name| {
            let value = self.covered.params.get(name)?;
            value.as_integer().map(i64::from)
        };
        let created = number("created").ok_or(AgentFault::Malformed)?;
        let expires = number("expires").ok_or(AgentFault::Malformed)?;
        let is_now = created <= now.saturating_add(MAX_SKEW_SECS) && now < expires;
        let is_short = expires <= now.saturating_add(MAX_LIFETIME_SECS + MAX_SKEW_SECS);
        if is_now && is_short { Ok(()) } else { Err(AgentFault::NotNow) }
    }

    /// The keys that may have made it: the one that it names, or else those without a name.
    fn keys<'k>(&self, keys: &'k [VerifyingKey]) -> impl Iterator<Item = &'k VerifyingKey> {
        let named = text(self.covered, "keyid").unwrap_or_default().to_owned();
        let is_known = keys.iter().any(|key| key.id.as_deref() == Some(&*named));
        let is_meant = move |key: &&VerifyingKey| match &key.id {
            Some(id) => **id == *named,
            None => !is_known,
        };
        keys.iter().filter(is_meant).take(MAX_NAMELESS_KEYS)
    }

    fn is_by(&self, key: &VerifyingKey, base: &[u8]) -> bool {
        let is_other = text(self.covered, "alg").is_some_and(|alg| alg != ALGORITHM);
        let Some(signature) = self.signature.filter(|_| !is_other && key.fits(Algorithm::EdDSA))
        else {
            return false;
        };
        let signature = URL_SAFE_NO_PAD.encode(signature);
        crypto::verify(&signature, base, &key.key, Algorithm::EdDSA).unwrap_or(false)
    }
}

/// A text among the parameters of a signature.
fn text<'c>(covered: &'c InnerList, name: &str) -> Option<&'c str> {
    Some(covered.params.get(name)?.as_string()?.as_str())
}

fn parsed(field: &[u8]) -> Result<Dictionary, AgentFault> {
    Parser::new(field).parse().map_err(|_| AgentFault::Malformed)
}

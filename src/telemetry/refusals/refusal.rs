//! One refusal.

use std::sync::Arc;

use tollgate_core::algorithm::Retry;
use tollgate_core::api_keys::KeyId;
use tollgate_core::digest::{Principal, PrincipalId};
use tollgate_core::price::Denomination;
use tollgate_core::time::Timestamp;

use crate::telemetry::WholeKey;

/// The most bytes of a path that are kept.
const MAX_PATH_BYTES: usize = 256;
/// The most bytes of the text of a key that are kept.
const MAX_TEXT_BYTES: usize = 512;
/// The most bytes of a method that are kept. Clients can invent methods.
const MAX_METHOD_BYTES: usize = 32;

/// What a refusal was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its number among all refusals of this process, from 0.
    pub sequence: u64,
    /// When it was, by the wall clock.
    pub time: Timestamp,
    /// The id of the request. Clients may choose it, so several requests may have it.
    pub request_id: String,
    /// The policy whose wait the client was told.
    pub policy: Arc<str>,
    /// The client that is counted.
    pub client: Principal,
    /// The masked text of its key.
    pub text: String,
    /// The whole key. None: it is not kept.
    pub whole: Option<WholeKey>,
    /// The plan whose limit held. None: another limit did.
    pub plan: Option<Box<str>>,
    /// The API key of the request. None: it had none that is accepted.
    pub api_key: Option<KeyId>,
    /// The limit in units.
    pub limit: u64,
    /// The units that counted against it.
    pub used: u64,
    /// What a unit is, if it is money.
    pub unit: Option<Denomination>,
    /// When the request would have fit.
    pub retry: Retry,
    /// The route.
    pub route: String,
    /// Where the counter was.
    pub source: &'static str,
    /// The method.
    pub method: String,
    /// The path, without the query and without the values of path parameters.
    pub path: String,
}

impl Refusal {
    /// The id of the client's key.
    pub fn key_id(&self) -> PrincipalId {
        self.client.into()
    }
}

/// A refusal, as a worker describes it.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// See [`Refusal`].
    pub time: Timestamp,
    pub request_id: &'a str,
    pub policy: &'a Arc<str>,
    pub client: Principal,
    pub text: &'a str,
    pub whole: Option<&'a WholeKey>,
    pub plan: Option<&'a str>,
    pub api_key: Option<KeyId>,
    pub limit: u64,
    pub used: u64,
    pub unit: Option<Denomination>,
    pub retry: Retry,
    pub route: &'a str,
    pub source: &'static str,
    pub method: &'a str,
    pub path: &'a str,
}

impl Refused<'_> {
    /// The refusal with this sequence.
    pub fn numbered(&self, sequence: u64) -> Refusal {
        let &Self { time, client, api_key, limit, used, unit, retry, source, .. } = self;
        Refusal {
            sequence,
            time,
            request_id: self.request_id.to_owned(),
            policy: Arc::clone(self.policy),
            client,
            text: cut(self.text, MAX_TEXT_BYTES).to_owned(),
            whole: self.whole.cloned(),
            plan: self.plan.map(Into::into),
            api_key,
            limit,
            used,
            unit,
            retry,
            route: self.route.to_owned(),
            source,
            method: cut(self.method, MAX_METHOD_BYTES).to_owned(),
            path: cut(self.path, MAX_PATH_BYTES).to_owned(),
        }
    }

    /// Writes the refusal with this sequence instead of another one, whose memory is used
    /// again.
    pub fn replace(&self, sequence: u64, old: &mut Refusal) {
        let &Self { time, client, limit, used, unit, retry, source, .. } = self;
        let texts = [
            (&mut old.request_id, self.request_id),
            (&mut old.text, cut(self.text, MAX_TEXT_BYTES)),
            (&mut old.route, self.route),
            (&mut old.method, cut(self.method, MAX_METHOD_BYTES)),
            (&mut old.path, cut(self.path, MAX_PATH_BYTES)),
        ];
        for (old, new) in texts {
            old.clear();
            old.push_str(new);
        }
        (old.sequence, old.time, old.client) = (sequence, time, client);
        (old.limit, old.used, old.unit) = (limit, used, unit);
        (old.retry, old.source) = (retry, source);
        old.whole = self.whole.cloned();
        old.plan = self.plan.map(Into::into);
        old.api_key = self.api_key;
    }
}

/// The beginning of a text that a client may have chosen.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let path = "/é".repeat(1000);
        let short = cut(&path, MAX_PATH_BYTES);
        assert!(short.len() <= MAX_PATH_BYTES && path.starts_with(short));
        assert_eq!(cut("/short", MAX_PATH_BYTES), "/short");
    }

    #[test]
    fn a_refusal_in_the_memory_of_another_is_the_same() {
        let policy = Arc::from("a");
        let method = "X".repeat(1000);
        let refused = |text, path, unit: &str| Refused {
            time: Timestamp::from_micros(7),
            request_id: "id",
            policy: &policy,
            client: Principal::from_bits(text_bits(text)),
            text,
            whole: None,
            plan: text.strip_prefix("ip "),
            api_key: None,
            limit: 3,
            used: 3,
            unit: unit.parse().ok(),
            retry: Retry::Never,
            route: "r",
            source: "store",
            method: &method,
            path,
        };
        let first = refused("ip a", "/long/path", "");
        let second = refused("header x", "/", "usd-6");
        let mut replaced = first.numbered(1);
        second.replace(2, &mut replaced);
        assert_eq!(replaced, second.numbered(2));
        assert_eq!(replaced.method.len(), MAX_METHOD_BYTES);
    }

    fn text_bits(text: &str) -> u128 {
        text.bytes().map(u128::from).sum()
    }
}

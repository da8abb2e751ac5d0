//! Calls that are repeated with the same `Idempotency-Key`
//! (draft-ietf-httpapi-idempotency-key-header): the second call gets the answer of the first
//! one, and nothing is counted again.
//!
//! The answers are kept for [`KEPT`] in the memory of this node, for all workers. Their number and
//! their size have bounds. If there are more, the oldest are forgotten: a repeated call then
//! counts twice.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use parking_lot::Mutex;
use tollgate_core::time::{Span, Timestamp};

/// How long an answer is kept.
pub const KEPT: Span = Span::from_secs(60);
/// The most characters of a key.
const MAX_KEY: usize = 255;
const SHARDS: usize = 16;
/// The most answers, and the most bytes of all answers, of a shard.
const MAX_ANSWERS: usize = 4096;
const MAX_BYTES: usize = 2 << 20;

/// A digest of 16 bytes.
type Short = [u8; 16];

/// The answers that are kept.
#[derive(Debug, Default)]
pub struct Answers {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    calls: HashMap<Short, Call>,
    /// All calls, the oldest first. A call that has ended earlier stays until its time.
    order: VecDeque<(Timestamp, Short)>,
    bytes: usize,
}

#[derive(Debug)]
struct Call {
    begun: Timestamp,
    body: Short,
    /// None: it is in progress.
    answer: Option<Kept>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Kept {
    pub status: StatusCode,
    pub fields: HeaderMap,
    pub body: Bytes,
}

/// What to do with a call.
#[derive(Debug)]
pub enum Begun {
    /// Answer it, and keep the answer.
    New(Pending),
    /// Its answer.
    Answered(Kept),
    /// The same call is in progress.
    InProgress,
    /// Another call had the same key.
    Differs,
}

/// A call in progress. Dropping it forgets the call.
#[derive(Debug)]
pub struct Pending {
    answers: Arc<Answers>,
    key: Short,
    begun: Timestamp,
}

/// What a call is known by: its caller, its path, its key, and its body.
#[derive(Clone, Copy, Debug)]
pub struct Repeatable<'c> {
    /// The digest of its token, which stays the same when tokens change their order. Empty: it
    /// needs none.
    pub caller: &'c [u8],
    pub path: &'c str,
    pub key: &'c [u8],
    pub body: &'c [u8],
}

impl Repeatable<'_> {
    /// Whether the key is not too long, and not empty.
    pub fn has_valid_key(&self) -> bool {
        (1..=MAX_KEY).contains(&self.key.len())
    }

    fn digests(&self) -> (Short, Short) {
        let mut key = Context::new(&SHA256);
        key.update(&[u8::try_from(self.caller.len()).unwrap_or(u8::MAX)]);
        key.update(self.caller);
        key.update(&[u8::try_from(self.path.len()).unwrap_or(u8::MAX)]);
        key.update(self.path.as_bytes());
        key.update(self.key);
        let mut body = Context::new(&SHA256);
        body.update(self.body);
        let short = |context: Context| {
            let mut short = Short::default();
            short.copy_from_slice(&context.finish().as_ref()[..16]);
            short
        };
        (short(key), short(body))
    }
}

impl Answers {
    fn shard(&self, key: &Short) -> &Mutex<Shard> {
        &self.shards[usize::from(key[0]) % SHARDS]
    }

    /// Begins a call at `now`.
    pub fn begin(self: &Arc<Self>, call: Repeatable<'_>, now: Timestamp) -> Begun {
        let (key, body) = call.digests();
        let mut shard = self.shard(&key).lock();
        shard.forget_old(now);
        if let Some(known) = shard.calls.get(&key) {
            return match &known.answer {
                _ if known.body != body => Begun::Differs,
                Some(answer) => Begun::Answered(answer.clone()),
                None => Begun::InProgress,
            };
        }
        shard.calls.insert(key, Call { begun: now, body, answer: None });
        shard.order.push_back((now, key));
        Begun::New(Pending { answers: Arc::clone(self), key, begun: now })
    }
}

impl Pending {
    /// Keeps the answer.
    pub fn answered(self, answer: Kept) {
        let mut shard = self.answers.shard(&self.key).lock();
        let size = answer.size();
        if let Some(call) = shard.calls.get_mut(&self.key)
            && call.begun == self.begun
            && size <= MAX_BYTES
        {
            call.answer = Some(answer);
            shard.bytes += size;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut shard = self.answers.shard(&self.key).lock();
        let is_this = |call: &Call| call.begun == self.begun && call.answer.is_none();
        if shard.calls.get(&self.key).is_some_and(is_this) {
            shard.calls.remove(&self.key);
        }
    }
}

impl Kept {
    /// The answer in a response.
    pub fn of(response: &Response<Bytes>) -> Self {
        let status = response.status();
        let fields = response.headers().clone();
        Self { status, fields, body: response.body().clone() }
    }

    /// The response with this answer.
    pub fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(self.body);
        (*response.status_mut(), *response.headers_mut()) = (self.status, self.fields);
        response
    }

    fn size(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.as_str().len() + value.len());
        self.body.len() + fields.sum::<usize>()
    }
}

impl Shard {
    fn forget_old(&mut self, now: Timestamp) {
        let is_old = |shard: &Self, begun: Timestamp| {
            now.since(begun) >= KEPT || shard.order.len() >= MAX_ANSWERS || shard.bytes > MAX_BYTES
        };
        while let Some(&(begun, key)) = self.order.front()
            && is_old(self, begun)
        {
            self.order.pop_front();
            // A later call with the same key has a place of its own.
            if self.calls.get(&key).is_some_and(|call| call.begun == begun) {
                let call = self.calls.remove(&key);
                let size = call.and_then(|call| call.answer).map_or(0, |answer| answer.size());
                self.bytes = self.bytes.saturating_sub(size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'c>(key: &'c str, body: &'c str) -> Repeatable<'c> {
        Repeatable { caller: b"one", path: "/v1/check", key: key.as_bytes(), body: body.as_bytes() }
    }

    fn kept(body: impl Into<Bytes>) -> Kept {
        Kept { status: StatusCode::OK, fields: HeaderMap::new(), body: body.into() }
    }

    const fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(1_795_246_126_000_000 + s * 1_000_000)
    }

    #[test]
    fn a_repeated_call_gets_the_first_answer_for_a_minute() {
        let answers = Arc::new(Answers::default());
        let Begun::New(first) = answers.begin(call("a", "x"), at(0)) else { panic!("it is new") };
        assert!(matches!(answers.begin(call("a", "x"), at(1)), Begun::InProgress));
        assert!(matches!(answers.begin(call("a", "y"), at(1)), Begun::Differs));
        first.answered(kept("one"));
        for second in [1, 59] {
            let Begun::Answered(found) = answers.begin(call("a", "x"), at(second)) else {
                panic!("it was answered")
            };
            assert_eq!(found.body, "one");
            assert!(matches!(answers.begin(call("a", "y"), at(second)), Begun::Differs));
        }
        let others = [
            Repeatable { caller: b"two", ..call("a", "x") },
            Repeatable { path: "/v1/settle", ..call("a", "x") },
            call("b", "x"),
        ];
        for other in others {
            assert!(matches!(answers.begin(other, at(59)), Begun::New(_)), "{other:?}");
        }
        assert!(matches!(answers.begin(call("a", "y"), at(60)), Begun::New(_)));
    }

    #[test]
    fn a_call_without_an_answer_can_be_made_again() {
        let answers = Arc::new(Answers::default());
        drop(answers.begin(call("a", "x"), at(0)));
        assert!(matches!(answers.begin(call("a", "y"), at(0)), Begun::New(_)));
    }

    #[test]
    fn answers_take_bounded_memory() {
        let answers = Arc::new(Answers::default());
        let large = Bytes::from(vec![0; MAX_BYTES / 4]);
        for n in 0..SHARDS * MAX_ANSWERS * 2 {
            let key = n.to_string();
            let Begun::New(pending) = answers.begin(call(&key, "x"), at(0)) else {
                panic!("it is new")
            };
            let body = if n % 64 == 0 { large.clone() } else { Bytes::from_static(b"small") };
            pending.answered(kept(body));
        }
        for shard in &answers.shards {
            let shard = shard.lock();
            assert!(shard.calls.len() <= MAX_ANSWERS && shard.order.len() <= MAX_ANSWERS);
            let bytes: usize =
                shard.calls.values().filter_map(|call| call.answer.as_ref()).map(Kept::size).sum();
            assert_eq!(bytes, shard.bytes);
            assert!(bytes <= MAX_BYTES + large.len(), "{bytes}");
        }
        let too_large = kept(vec![0; MAX_BYTES + 1]);
        let Begun::New(pending) = answers.begin(call("large", "x"), at(0)) else {
            panic!("it is new")
        };
        pending.answered(too_large);
        assert!(matches!(answers.begin(call("large", "x"), at(0)), Begun::New(_)));
    }
}

//! The calls that wait for a connection.
//!
//! Calls are sent in the order in which they are made. If many calls of one bucket of counters
//! wait, further ones of this bucket form a crowd, and calls of others go first, so that a client
//! with many requests at once does not make the others wait. All calls of one bucket keep their
//! order, because reports of counted units must arrive before later questions.
//!
//! The number of calls is bounded by the memory that they take, not otherwise: how long a call
//! waits is bounded by its deadline.

use std::collections::VecDeque;

use super::call::Call;

/// The maximum memory of waiting calls, in bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;
/// The memory of a call beside its keys and its body: the call, its reply and its deadline.
const CALL_BYTES: usize = size_of::<Call>() + 192;
/// The number of lanes. Buckets are distributed over them.
const LANES: usize = 1024;
/// With fewer waiting calls there are no crowds: they go with one of the next batches.
const FEW: usize = 256;
/// So many waiting calls of one lane are no crowd.
const FEW_OF_LANE: u32 = 8;
/// One of so many calls is taken from the crowds, while others wait.
const CROWD_TURN: usize = 4;

/// Calls that wait.
#[derive(Debug)]
pub(super) struct Waiting {
    ordinary: VecDeque<Call>,
    crowds: VecDeque<Call>,
    lanes: Box<[Lane]>,
    turn: usize,
    bytes: usize,
    max_bytes: usize,
    /// How many calls come before abandoned ones are looked for again.
    until_look: usize,
}

/// The waiting calls of one lane.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    all: u32,
    in_crowd: u32,
}

impl Default for Waiting {
    fn default() -> Self {
        Self::with_bytes(MAX_BYTES)
    }
}

impl Waiting {
    /// No calls. They may take so much memory.
    pub(super) fn with_bytes(max_bytes: usize) -> Self {
        Self {
            ordinary: VecDeque::new(),
            crowds: VecDeque::new(),
            lanes: vec![Lane::default(); LANES].into(),
            turn: 0,
            bytes: 0,
            max_bytes,
            until_look: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ordinary.len() + self.crowds.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a call.
    ///
    /// # Errors
    /// The call, if there is no memory for it.
    pub(super) fn push(&mut self, call: Call) -> Result<(), Call> {
        let bytes = bytes(&call);
        if self.bytes + bytes > self.max_bytes {
            self.remove_abandoned();
        }
        if self.bytes + bytes > self.max_bytes {
            return Err(call);
        }
        let are_many = self.len() >= FEW;
        let joins = |lane: Lane| lane.in_crowd > 0 || are_many && lane.all >= FEW_OF_LANE;
        let in_crowd = lanes(&call).any(|lane| joins(self.lanes[lane]));
        self.note(&call, in_crowd);
        if in_crowd {
            self.crowds.push_back(call)
        } else {
            self.ordinary.push_back(call)
        }
        Ok(())
    }

    /// The next call.
    pub(super) fn pop(&mut self) -> Option<Call> {
        self.turn = (self.turn + 1) % CROWD_TURN;
        let is_turn = self.turn == 0 || self.ordinary.is_empty();
        let from_crowd = is_turn && self.crowds.front().is_some_and(|call| self.is_next(call));
        let call = if from_crowd { self.crowds.pop_front() } else { self.ordinary.pop_front() }?;
        self.forget(&call, from_crowd);
        Some(call)
    }

    /// Whether no earlier call of the same buckets waits outside of the crowds.
    fn is_next(&self, call: &Call) -> bool {
        lanes(call).all(|lane| self.lanes[lane].all == self.lanes[lane].in_crowd)
    }

    /// Puts a call that was taken back to the front.
    pub(super) fn push_front(&mut self, call: Call) {
        self.note(&call, false);
        self.ordinary.push_front(call);
    }

    /// Takes all calls.
    pub(super) fn drain(&mut self) -> Vec<Call> {
        let mut calls = Vec::with_capacity(self.len());
        while let Some(call) = self.pop() {
            calls.push(call);
        }
        calls
    }

    /// Removes calls for which no caller waits. That looks at all calls, so it is not done for
    /// each one that does not fit.
    fn remove_abandoned(&mut self) {
        if self.until_look > 0 {
            self.until_look -= 1;
            return;
        }
        for from_crowd in [false, true] {
            let calls = if from_crowd { &mut self.crowds } else { &mut self.ordinary };
            for call in std::mem::take(calls) {
                if call.answer.is_closed() {
                    self.forget(&call, from_crowd);
                } else if from_crowd {
                    self.crowds.push_back(call);
                } else {
                    self.ordinary.push_back(call);
                }
            }
        }
        self.until_look = self.len() / 8;
    }

    fn note(&mut self, call: &Call, in_crowd: bool) {
        self.bytes += bytes(call);
        for lane in lanes(call) {
            self.lanes[lane].all += 1;
            self.lanes[lane].in_crowd += u32::from(in_crowd);
        }
    }

    fn forget(&mut self, call: &Call, in_crowd: bool) {
        self.bytes -= bytes(call);
        for lane in lanes(call) {
            self.lanes[lane].all -= 1;
            self.lanes[lane].in_crowd -= u32::from(in_crowd);
        }
    }
}

fn bytes(call: &Call) -> usize {
    let keys: usize = call.encoded.keys.iter().map(|key| key.len()).sum();
    CALL_BYTES + keys + call.encoded.body.len()
}

/// The lanes of the buckets of a call. The last bytes of a key name its bucket.
fn lanes(call: &Call) -> impl Iterator<Item = usize> {
    call.encoded.keys.iter().map(|key| {
        let end = match key.last_chunk() {
            Some(end) => u64::from_be_bytes(*end),
            None => key.iter().fold(0, |end, byte| end << 8 | u64::from(*byte)),
        };
        // The highest bits of the product depend on all bits.
        let bits = end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LANES.ilog2());
        usize::try_from(bits).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smallvec::smallvec;

    use super::super::super::deadline::{PendingReply, ReplySender};
    use super::super::super::script::Encoded;
    use super::super::call::Repeat;
    use super::*;

    /// A call of this client.
    fn call(client: u32, body: usize) -> (Call, PendingReply) {
        let (answer, receiver) = ReplySender::new();
        let key = format!("tollgate:{client:08}").into();
        let encoded = Encoded { keys: smallvec![key], body: body.to_string().into() };
        let group = 0;
        let repeat = Repeat::Never;
        (Call { encoded, group, asking: false, is_apart: false, repeat, answer }, receiver)
    }

    fn of(call: &Call) -> (String, usize) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&call.encoded.keys[0]), text(&call.encoded.body).parse().expect("a number"))
    }

    #[test]
    fn a_crowd_of_one_client_does_not_make_others_wait() {
        let mut waiting = Waiting::default();
        let mut receivers = Vec::new();
        let mut push = |waiting: &mut Waiting, client, body| {
            let (call, receiver) = call(client, body);
            receivers.push(receiver);
            assert!(waiting.push(call).is_ok());
        };
        (0..9000).for_each(|body| push(&mut waiting, 1, body));
        push(&mut waiting, 2, 0);
        let turns = std::iter::from_fn(|| waiting.pop()).map(|it| of(&it).0);
        let turn = turns.into_iter().position(|key| key.ends_with('2')).expect("it is sent");
        assert!(turn < 2 * FEW, "{turn} calls go before it");
    }

    #[test]
    fn memory_is_bounded_and_abandoned_calls_make_room() {
        let first = call(1, 0);
        let size = CALL_BYTES + 18;
        let mut waiting = Waiting::with_bytes(16 * size);
        assert_eq!(bytes(&first.0), size);
        let mut receivers = Vec::new();
        for body in 0..9 {
            let (call, receiver) = call(1, body);
            receivers.push(receiver);
            assert!(waiting.push(call).is_ok());
        }
        let more: Vec<_> = (0..16).map(|client| call(client, 0)).collect();
        let (more, _receivers): (Vec<_>, Vec<_>) = more.into_iter().unzip();
        let refused: Vec<_> = more.into_iter().filter_map(|it| waiting.push(it).err()).collect();
        assert_eq!((waiting.len(), refused.len()), (16, 9));
        receivers.truncate(4);
        let pushed = refused.into_iter().filter_map(|it| waiting.push(it).ok()).count();
        assert!(pushed >= 3, "{pushed}: 5 calls were abandoned");
        assert!(waiting.bytes <= 16 * size);
        assert_eq!(waiting.drain().len(), waiting.len() + 11 + pushed);
        assert_eq!(waiting.bytes, 0);
        assert!(waiting.lanes.iter().all(|lane| lane.all == 0 && lane.in_crowd == 0));
    }

    proptest! {
        /// Each call is taken once, and those of one client in their order.
        #[test]
        fn the_calls_of_a_client_keep_their_order(
            steps in prop::collection::vec((0_u32..6, 0_usize..40, 0_usize..40), 0..200),
        ) {
            let mut waiting = Waiting::default();
            let mut receivers = Vec::new();
            let mut next = 0;
            let mut taken = Vec::new();
            for (client, pushed, popped) in steps {
                for _ in 0..pushed {
                    let (call, receiver) = call(client, next);
                    receivers.push(receiver);
                    prop_assert!(waiting.push(call).is_ok());
                    next += 1;
                }
                taken.extend((0..popped).filter_map(|_| waiting.pop()).map(|it| of(&it)));
            }
            taken.extend(waiting.drain().iter().map(of));
            prop_assert_eq!(taken.len(), next);
            let key = |client: u32| format!("tollgate:{client:08}");
            for client in 0..6 {
                let own = taken.iter().filter(|(it, _)| *it == key(client));
                let own: Vec<_> = own.map(|(_, body)| *body).collect();
                prop_assert!(own.is_sorted(), "{:?}", own);
            }
        }
    }
}

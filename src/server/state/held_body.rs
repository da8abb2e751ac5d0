//! A body, or the beginning of one, that was read before it is forwarded.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use smallvec::SmallVec;

use super::body_memory::{BodyMemory, MemoryPart};

/// The size of the first block. Most bodies of forms fit into it.
const FIRST_BLOCK: usize = 1024;
/// The size of the largest block.
const LARGEST_BLOCK: usize = 64 * 1024;

/// The bytes of a body in the order in which they were read, and its trailers.
#[derive(Debug)]
pub struct HeldBody {
    memory: Arc<BodyMemory>,
    blocks: VecDeque<Bytes>,
    /// The block that is being filled.
    last: Option<(Vec<u8>, MemoryPart)>,
    trailers: Option<HeaderMap>,
    bytes: u64,
    /// Whether the client has announced the length.
    has_length: bool,
}

/// There is no memory for more of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl HeldBody {
    /// Nothing yet of a body with this hint.
    pub fn new(memory: Arc<BodyMemory>, hint: &SizeHint) -> Self {
        Self {
            memory,
            blocks: VecDeque::new(),
            last: None,
            trailers: None,
            bytes: 0,
            has_length: hint.exact().is_some(),
        }
    }

    /// The bytes that it has.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies further bytes. They are copied, because a small part of what was received would
    /// keep a large buffer alive.
    ///
    /// # Errors
    /// If there is no memory for them. Nothing is copied then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), NoMemory> {
        let mut rest = bytes;
        let mut added: SmallVec<[_; 1]> = SmallVec::new();
        let room = self.last.as_ref().map_or(0, |(block, _)| block.capacity() - block.len());
        let mut missing = bytes.len().saturating_sub(room);
        let mut size = self.last.as_ref().map_or(FIRST_BLOCK / 2, |(block, _)| block.capacity());
        while missing > 0 {
            // Most bodies arrive at once, and then have one block.
            size = (size * 2).max(missing).min(LARGEST_BLOCK);
            let part = self.memory.take(size).ok_or(NoMemory)?;
            added.push((Vec::with_capacity(size), part));
            missing = missing.saturating_sub(size);
        }
        let mut added = added.into_iter();
        while !rest.is_empty() {
            let is_full = |block: &Vec<u8>| block.len() == block.capacity();
            if self.last.as_ref().is_none_or(|(block, _)| is_full(block)) {
                self.end_block();
                self.last = added.next();
            }
            let Some((block, _)) = &mut self.last else { break };
            let (fitting, others) = rest.split_at(rest.len().min(block.capacity() - block.len()));
            block.extend_from_slice(fitting);
            rest = others;
        }
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Keeps these bytes without a copy, though there is no memory for more.
    pub fn push_last(&mut self, bytes: Bytes) {
        self.end_block();
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.blocks.push_back(bytes);
    }

    /// Keeps the trailers, with which the body ends.
    pub fn end_with(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
    }

    /// Replaces these bytes by others. Nothing of the body must have been forwarded.
    pub fn replace(&mut self, range: &Range<u64>, text: &'static [u8]) {
        self.end_block();
        let mut text = Some(Bytes::from_static(text));
        let mut begin = 0;
        for mut block in std::mem::take(&mut self.blocks) {
            let end = begin + u64::try_from(block.len()).unwrap_or(u64::MAX);
            // How many bytes of the block are before this place in the body.
            let until = |place: u64| usize::try_from(place.clamp(begin, end) - begin).unwrap_or(0);
            let behind = block.split_off(until(range.end));
            block.truncate(until(range.start));
            let inserted = if range.start <= end { text.take() } else { None };
            let pieces = [Some(block), inserted, Some(behind)];
            self.blocks.extend(pieces.into_iter().flatten().filter(|piece| !piece.is_empty()));
            begin = end;
        }
        self.bytes = self.blocks.iter().map(|it| u64::try_from(it.len()).unwrap_or(u64::MAX)).sum();
    }

    /// All blocks.
    pub fn blocks(&mut self) -> impl Iterator<Item = &Bytes> {
        self.end_block();
        self.blocks.iter()
    }

    /// The next frame that is forwarded. None: there are no others.
    pub fn next(&mut self) -> Option<Frame<Bytes>> {
        self.end_block();
        if let Some(block) = self.blocks.pop_front() {
            self.bytes = self.bytes.saturating_sub(u64::try_from(block.len()).unwrap_or(u64::MAX));
            return Some(Frame::data(block));
        }
        self.trailers.take().map(Frame::trailers)
    }

    /// Whether there are no other frames.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0 && self.trailers.is_none()
    }

    /// The size of this part and of a rest with this hint. It is exact only if the client has
    /// announced the length: it is forwarded in the same way.
    pub fn size_hint(&self, rest: &SizeHint) -> SizeHint {
        let mut whole = SizeHint::new();
        whole.set_lower(rest.lower().saturating_add(self.bytes));
        if let (true, Some(upper)) = (self.has_length, rest.upper()) {
            whole.set_upper(upper.saturating_add(self.bytes));
        }
        whole
    }

    fn end_block(&mut self) {
        if let Some((block, part)) = self.last.take() {
            self.blocks.push_back(part.holding(block));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(max: u64, has_length: bool) -> (Arc<BodyMemory>, HeldBody) {
        let memory = Arc::new(BodyMemory::default());
        memory.set_max(max);
        let hint = if has_length { SizeHint::with_exact(7) } else { SizeHint::new() };
        (Arc::clone(&memory), HeldBody::new(memory, &hint))
    }

    fn bytes_of(mut body: HeldBody) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(frame) = body.next() {
            bytes.extend(frame.into_data().unwrap_or_default());
        }
        bytes
    }

    #[test]
    fn a_body_takes_memory_in_blocks_until_it_is_sent() {
        let (memory, mut body) = held(1024 * 1024, true);
        body.push(b"a").expect("there is memory");
        assert_eq!(memory.used(), 1024);
        body.push(&[b'b'; 1023]).expect("there is memory");
        assert_eq!(memory.used(), 1024);
        body.push(b"c").expect("there is memory");
        assert_eq!((memory.used(), body.bytes()), (1024 + 2048, 1025));
        let first = body.next().expect("a frame").into_data().expect("data");
        assert_eq!((first.len(), memory.used()), (1024, 1024 + 2048));
        drop(first);
        assert_eq!((memory.used(), body.bytes()), (2048, 1));
        drop(body);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn what_arrives_at_once_is_one_block() {
        let (memory, mut body) = held(1024 * 1024, true);
        body.push(&[b'a'; 5000]).expect("there is memory");
        assert_eq!((body.blocks().count(), memory.used()), (1, 5000));
        body.push(&[b'b'; 100_000]).expect("there is memory");
        let sizes: Vec<usize> = body.blocks().map(Bytes::len).collect();
        assert_eq!(sizes, [5000, LARGEST_BLOCK, 100_000 - LARGEST_BLOCK]);
        assert_eq!(memory.used(), 5000 + 2 * u64::try_from(LARGEST_BLOCK).unwrap());
    }

    #[test]
    fn without_memory_nothing_more_is_kept() {
        let (memory, mut body) = held(3 * 1024, true);
        body.push(&[b'a'; 1500]).expect("there is memory");
        assert_eq!(body.push(&[b'b'; 2000]), Err(NoMemory));
        assert_eq!((body.bytes(), memory.used()), (1500, 1500));
        body.push_last(Bytes::from_static(b"rest"));
        assert_eq!(bytes_of(body).len(), 1504);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn only_an_announced_length_is_told() {
        for has_length in [true, false] {
            let (_, mut body) = held(1024, has_length);
            body.push(b"abc").expect("there is memory");
            let hint = body.size_hint(&SizeHint::with_exact(4));
            assert_eq!((hint.lower(), hint.exact()), (7, has_length.then_some(7)));
        }
    }

    #[test]
    fn trailers_come_last() {
        let (_, mut body) = held(1024, false);
        let mut trailers = HeaderMap::new();
        trailers.insert("x", "1".parse().expect("a value"));
        body.end_with(trailers.clone());
        body.push(b"abc").expect("there is memory");
        assert!(body.next().expect("a frame").is_data() && !body.is_empty());
        let last = body.next().expect("a frame").into_trailers().expect("trailers");
        assert!(last == trailers && body.is_empty() && body.next().is_none());
    }

    proptest! {
        #[test]
        fn what_is_forwarded_is_what_was_read(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5000), 0..20),
        ) {
            let (memory, mut body) = held(u64::MAX, false);
            for piece in &pieces {
                prop_assert_eq!(body.push(piece), Ok(()));
            }
            let whole = pieces.concat();
            prop_assert_eq!(body.bytes(), u64::try_from(whole.len()).unwrap());
            let blocks: Vec<u8> = body.blocks().flatten().copied().collect();
            prop_assert_eq!(&blocks, &whole);
            prop_assert_eq!(&bytes_of(body), &whole);
            prop_assert_eq!(memory.used(), 0);
        }

        #[test]
        fn the_bytes_of_a_range_are_replaced(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..3000), 1..9),
            range: [prop::sample::Index; 2],
        ) {
            let (memory, mut body) = held(u64::MAX, true);
            for piece in &pieces {
                prop_assert_eq!(body.push(piece), Ok(()));
            }
            let whole = pieces.concat();
            let mut ends = range.map(|it| it.index(whole.len() + 1));
            ends.sort_unstable();
            let [begin, end] = ends;
            let place = |at: usize| u64::try_from(at).unwrap();
            body.replace(&(place(begin)..place(end)), b"text");
            let expected = [&whole[..begin], b"text", &whole[end..]].concat();
            prop_assert_eq!(body.bytes(), place(expected.len()));
            prop_assert_eq!(body.size_hint(&SizeHint::with_exact(0)).exact(), Some(body.bytes()));
            prop_assert_eq!(&bytes_of(body), &expected);
            prop_assert_eq!(memory.used(), 0);
        }
    }
}

//! The memory that the bodies of requests may take which are read before they are forwarded.
//!
//! All workers share one bound, because the process has one memory. A body takes its space in
//! blocks and before it is filled, so that slow clients cannot make the process take more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::telemetry::{Samples, Source, families};

/// The bound, if the configuration names none: 256 MiB.
pub const USUAL_BODY_MEMORY: u64 = 256 * 1024 * 1024;

/// The memory for bodies, and how much of it is in use.
#[derive(Debug)]
pub struct BodyMemory {
    used: AtomicU64,
    max: AtomicU64,
}

/// A part of the memory, which is given back when it is dropped.
#[derive(Debug)]
pub struct MemoryPart {
    memory: Arc<BodyMemory>,
    bytes: u64,
}

/// A block of a body. Its memory is given back when its last copy is dropped.
struct Block {
    bytes: Vec<u8>,
    _part: MemoryPart,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self { used: AtomicU64::new(0), max: AtomicU64::new(USUAL_BODY_MEMORY) }
    }
}

impl BodyMemory {
    /// Changes the bound. What is in use stays in use.
    pub fn set_max(&self, bytes: u64) {
        self.max.store(bytes, Ordering::Relaxed);
    }

    /// The bytes that are in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes a part. None if that much is not free.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<MemoryPart> {
        let bytes = u64::try_from(bytes).ok()?;
        let max = self.max.load(Ordering::Relaxed);
        let grown = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok()?;
        Some(MemoryPart { memory: Arc::clone(self), bytes })
    }
}

impl MemoryPart {
    /// These bytes, which take this part until their last copy is dropped.
    pub fn holding(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Block { bytes, _part: self })
    }
}

impl Drop for MemoryPart {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Source for BodyMemory {
    fn collect(&self, samples: &mut Samples) {
        samples.set_whole(&families::BODY_MEMORY, &[], self.used());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_has_a_bound_and_comes_back() {
        let memory = Arc::new(BodyMemory::default());
        memory.set_max(100);
        let first = memory.take(60).expect("it is free");
        assert!(memory.take(41).is_none());
        let second = memory.take(40).expect("it is free");
        assert_eq!(memory.used(), 100);
        drop(first);
        assert_eq!(memory.used(), 40);
        let bytes = second.holding(b"abc".to_vec());
        let copy = bytes.slice(1..2);
        drop(bytes);
        assert_eq!((&copy[..], memory.used()), (&b"b"[..], 40));
        drop(copy);
        assert_eq!(memory.used(), 0);
        memory.set_max(10);
        assert!(memory.take(11).is_none() && memory.take(usize::MAX).is_none());
    }
}

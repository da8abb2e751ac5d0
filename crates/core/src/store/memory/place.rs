//! Where a key may be in the store.

/// One key of this many is in the [sample](Place::sample).
const SAMPLED: u128 = 16;

/// The slots in which a key may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) shard: usize,
    /// The group that it shares with many keys, in a small part of the table.
    pub(super) near: Option<usize>,
    pub(super) groups: [usize; 2],
    /// Eight bits of the key. A lookup skips most slots of other keys by them.
    pub(super) tag: u8,
    pub(super) key: u128,
}

impl Place {
    /// The number of the key among those whose promises are watched. None: it is not among
    /// them.
    pub(super) fn sample(&self) -> Option<usize> {
        // These bits choose neither the shard nor a group nor the tag.
        let bits = self.key >> 40 & 0xff_ffff;
        let number = (bits % SAMPLED == 0).then_some(bits / SAMPLED)?;
        usize::try_from(number).ok()
    }
}

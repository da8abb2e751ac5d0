//! Numbers as bytes: of fixed width in bodies, of variable width in stored states.

/// 2025-01-01, the epoch of stored times.
pub(super) const EPOCH_US: u64 = 1_735_689_600_000_000;
/// The end of valid times, in the year 2060. Until then the ends of windows of one second fit
/// into four bytes, and all sums and quotients in the script are exact.
pub(super) const END_US: u64 = EPOCH_US + (1 << (32 + 18));

/// The kinds of states in a state's head. 0 is no state. 7 is the units in flight of an
/// earlier version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    SlidingWindow = 1,
    SubWindows = 2,
    FixedWindow = 3,
    SlidingLog = 4,
    TokenBucket = 5,
    LeakyBucket = 6,
    Ban = 8,
    Concurrency = 9,
    /// Only in bodies. It is stored in another format.
    LongLog = 15,
}

/// The kinds of states that this release does not have. Newer releases use them. All of them have
/// one number after their end, the length of a block, so that this release can skip them.
const FIRST_NEWER: u8 = 10;
const LAST_NEWER: u8 = 14;

/// The count of numbers in a state of this kind after its end, and whether the last of them is
/// the length of a block.
pub(super) const fn shape(kind: u8) -> Option<(u8, bool)> {
    Some(match kind {
        1 | 8 => (2, false),
        2 => (2, true),
        3 => (1, false),
        4 => (4, true),
        5 | 6 => (3, false),
        9 => (3, true),
        7 | FIRST_NEWER..=LAST_NEWER => (1, true),
        _ => return None,
    })
}

/// Why a reply of the script is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReply {
    /// It ends too early.
    #[error("the reply of the script ends too early")]
    Short,
    /// Its first byte is neither 0 (admitted) nor 1 (refused).
    #[error("the reply of the script begins with {0}, which is neither 0 nor 1")]
    Outcome(u8),
    /// Its time is out of range.
    #[error("the reply of the script has the time {0} us since 1970: set the server's clock")]
    Time(u64),
    /// A number of too many bits.
    #[error("a state has a number of more than 53 bits")]
    Number,
    /// A log whose entries cannot be read.
    #[error("a log has entries that cannot be read")]
    Log,
    /// Its decision contradicts the states that it read.
    #[error("the script refused what the states admit, or the other way round: run one version")]
    Disagrees,
}

/// Appends the lowest `WIDTH` bytes of a number, the lowest first.
pub(super) fn put<const WIDTH: usize>(number: u64, to: &mut Vec<u8>) {
    to.extend_from_slice(&number.to_le_bytes()[..WIDTH]);
}

/// The unread rest of a reply.
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    pub(super) fn bytes(&mut self, count: u64) -> Result<&'b [u8], InvalidReply> {
        let count = usize::try_from(count).map_err(|_| InvalidReply::Short)?;
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(InvalidReply::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, InvalidReply> {
        Ok(self.bytes(1)?[0])
    }

    /// A number of `WIDTH` bytes, the lowest first.
    pub(super) fn fixed<const WIDTH: usize>(&mut self) -> Result<u64, InvalidReply> {
        let (digits, rest) = self.0.split_first_chunk::<WIDTH>().ok_or(InvalidReply::Short)?;
        self.0 = rest;
        let mut bytes = [0; 8];
        bytes[..WIDTH].copy_from_slice(digits);
        Ok(u64::from_le_bytes(bytes))
    }

    /// A time of seven bytes.
    pub(super) fn time_us(&mut self) -> Result<u64, InvalidReply> {
        match self.fixed::<7>()? {
            time_us @ 1..END_US => Ok(time_us),
            time_us => Err(InvalidReply::Time(time_us)),
        }
    }

    /// A number of variable width (LEB128: seven bits a byte, the lowest first).
    pub(super) fn number(&mut self) -> Result<u64, InvalidReply> {
        let mut number = 0_u64;
        let mut place = 0;
        loop {
            let byte = self.byte()?;
            let digit = u64::from(byte & 0x7f);
            number |= digit.checked_shl(place).ok_or(InvalidReply::Number)?;
            place += 7;
            if number >= 1 << 53 || place > 56 {
                return Err(InvalidReply::Number);
            }
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
    }

    /// The bytes after their length.
    pub(super) fn block(&mut self) -> Result<Self, InvalidReply> {
        let length = self.number()?;
        self.bytes(length).map(Reader)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

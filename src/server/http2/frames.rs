//! Checks the frames of an HTTP/2 connection as they arrive, where the HTTP/2 library
//! does not.
//!
//! The library bounds the number of streams, their windows and the size of heads. It does
//! not bound how often a client may reset streams, change settings, ping, or send empty
//! frames. Each of these costs the client a few bytes and the gateway some work (RFC 9113,
//! section 10.5). This module counts them for each second and reports an excess. It also
//! finds the faults that the library does not detect, or for which it uses another error
//! code than RFC 9113 requires.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::fragments::Fragments;
use crate::server::settings::Http2Settings;

/// The first bytes of a client (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length, type, flags and stream identifier of a frame.
const HEADER_BYTES: usize = 9;
const WINDOW: Duration = Duration::from_secs(1);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// Flag of DATA and HEADERS.
const END_STREAM: u8 = 0x1;
/// Flag of SETTINGS.
const ACK: u8 = 0x1;
/// Flag of HEADERS and CONTINUATION.
const END_HEADERS: u8 = 0x4;
/// Flag of DATA and HEADERS.
const PADDED: u8 = 0x8;
/// Flag of HEADERS.
const HAS_PRIORITY: u8 = 0x20;

/// The setting for the window of each stream, and the largest window.
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_WINDOW: u32 = i32::MAX.unsigned_abs();

/// How many bytes of a payload are gathered for inspection: for trailers the part before
/// the first field and the beginning of its name, for SETTINGS one setting.
const PIECE_BYTES: usize = 10;
const SETTING_BYTES: usize = 6;

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the client resets too many streams")]
    Resets,
    #[error("the client sends too many frames without content")]
    Control,
    #[error("the client sends too many window updates")]
    WindowUpdates,
    /// RFC 9113, section 3.4.
    #[error("the client's first frame is not SETTINGS")]
    NoSettings,
    /// RFC 9113, section 4.2.
    #[error("a frame does not have the size of its type")]
    FrameSize,
    /// RFC 9113, section 6.5.2.
    #[error("the client sets a window that is too large")]
    Window,
    /// RFC 9113, section 8.1.
    #[error("trailers contain a pseudo field")]
    PseudoTrailer,
}

impl Fault {
    /// The setting that the client has exceeded; none for another fault.
    pub const fn bound(self) -> Option<&'static str> {
        match self {
            Self::Resets => Some("http2.max_resets"),
            Self::Control => Some("http2.max_control_frames"),
            Self::WindowUpdates => Some("http2.max_window_updates"),
            Self::NoSettings | Self::FrameSize | Self::Window | Self::PseudoTrailer => None,
        }
    }

    /// The error code that is sent to the client (RFC 9113, section 7).
    const fn code(self) -> u32 {
        match self {
            Self::NoSettings | Self::PseudoTrailer => 1,
            Self::Window => 3,
            Self::FrameSize => 6,
            Self::Resets | Self::Control | Self::WindowUpdates => 11,
        }
    }
}

/// The state of the inspection of one connection.
#[derive(Debug)]
pub struct Frames {
    limits: Http2Settings,
    /// Bytes left of the preface, or of the payload of the current frame.
    skip_bytes: usize,
    header: [u8; HEADER_BYTES],
    /// How many bytes of the next header have arrived.
    header_bytes: usize,
    piece: Piece,
    has_settings: bool,
    /// The number of heads that have begun.
    heads: u64,
    /// A head has begun, and its last frame has not arrived.
    has_open_head: bool,
    /// The current frame carries a head or a part of one.
    carries_head: bool,
    /// In a frame with a head: bytes before the fields, and after them.
    before_fields: usize,
    padding: usize,
    /// Inspects the fields of heads; None for trailers.
    fragments: Option<Fragments>,
    /// The latest stream.
    last_stream: u32,
    /// Streams whose requests have not ended, as far as this module can tell, at most
    /// `max_streams`. The next head of one of them is its trailers.
    open_streams: Vec<u32>,
    since: Instant,
    /// The number of heads when the current second began, and when the one before did.
    heads_before: [u64; 2],
    resets: u32,
    control: u32,
    window_updates: u32,
}

/// A piece of a payload that is gathered for inspection.
#[derive(Debug, Default)]
struct Piece {
    bytes: [u8; PIECE_BYTES],
    len: usize,
    /// Its complete length; 0: nothing is gathered.
    wanted: usize,
}

impl Frames {
    /// A new connection, which begins with the preface.
    pub fn new(limits: Http2Settings, now: Instant) -> Self {
        Self {
            limits,
            skip_bytes: PREFACE.len(),
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            piece: Piece::default(),
            has_settings: false,
            heads: 0,
            has_open_head: false,
            carries_head: false,
            before_fields: 0,
            padding: 0,
            fragments: None,
            last_stream: 0,
            open_streams: Vec::new(),
            since: now,
            heads_before: [0; 2],
            resets: 0,
            control: 0,
            window_updates: 0,
        }
    }

    /// The number, from 1, of the head that is incomplete, if any.
    pub fn open_head(&self) -> Option<u64> {
        let is_open = self.has_open_head || (self.carries_head && self.skip_bytes > 0);
        is_open.then_some(self.heads)
    }

    /// Whether the client has reset streams in the last second in which frames were counted.
    pub const fn has_resets(&self) -> bool {
        self.resets > 0
    }

    /// A GOAWAY frame that reports `fault` to the client (RFC 9113, section 6.8).
    pub fn goaway(&self, fault: Fault) -> [u8; HEADER_BYTES + 8] {
        let mut frame = [0; HEADER_BYTES + 8];
        (frame[2], frame[3]) = (8, GOAWAY);
        frame[HEADER_BYTES..][..4].copy_from_slice(&self.last_stream.to_be_bytes());
        frame[HEADER_BYTES + 4..].copy_from_slice(&fault.code().to_be_bytes());
        frame
    }

    /// Inspects bytes that arrived, and makes each path with a fragment invalid. The clock
    /// is read only for frames that are counted.
    ///
    /// # Errors
    /// If the connection is to be closed.
    pub fn inspect(
        &mut self,
        mut bytes: &mut [u8],
        clock: impl Fn() -> Instant,
    ) -> Result<(), Fault> {
        while !bytes.is_empty() {
            if self.piece.wanted > 0 {
                bytes = self.gather(bytes)?;
                continue;
            }
            let skipped = self.skip_bytes.min(bytes.len());
            let (payload, rest) = bytes.split_at_mut(skipped);
            if self.carries_head {
                self.follow_fields(payload);
            }
            self.skip_bytes -= skipped;
            bytes = rest;
            let wanted = (HEADER_BYTES - self.header_bytes).min(bytes.len());
            self.header[self.header_bytes..][..wanted].copy_from_slice(&bytes[..wanted]);
            self.header_bytes += wanted;
            bytes = &mut bytes[wanted..];
            if self.header_bytes == HEADER_BYTES {
                self.header_bytes = 0;
                self.begin_frame(&clock)?;
            }
        }
        Ok(())
    }

    /// Adds to the piece, inspects it when it is complete, and returns the other bytes.
    fn gather<'b>(&mut self, bytes: &'b mut [u8]) -> Result<&'b mut [u8], Fault> {
        let Piece { bytes: gathered, len, wanted } = &mut self.piece;
        let (more, rest) = bytes.split_at_mut((*wanted - *len).min(bytes.len()));
        gathered[*len..][..more.len()].copy_from_slice(more);
        *len += more.len();
        self.skip_bytes -= more.len();
        if *len < *wanted {
            return Ok(rest);
        }
        let piece = &gathered[..*len];
        if self.carries_head {
            if begins_with_pseudo_field(piece, self.header[4]) {
                return Err(Fault::PseudoTrailer);
            }
            self.piece.wanted = 0;
        } else {
            let &[high, low, ref value @ ..] = piece else { return Ok(rest) };
            let value = value.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
            if u16::from_be_bytes([high, low]) == INITIAL_WINDOW_SIZE && value > MAX_WINDOW {
                return Err(Fault::Window);
            }
            self.piece.wanted = self.skip_bytes.min(SETTING_BYTES);
        }
        self.piece.len = 0;
        Ok(rest)
    }

    /// Inspects the next bytes of a frame that carries a head.
    fn follow_fields(&mut self, payload: &mut [u8]) {
        let Some(fragments) = &mut self.fragments else {
            return;
        };
        let (before, fields) = payload.split_at_mut(self.before_fields.min(payload.len()));
        if let [first, ..] = before
            && self.header[4] & PADDED != 0
            && self.before_fields == before_fields(self.header[4])
        {
            self.padding = usize::from(*first);
        }
        self.before_fields -= before.len();
        let left = (self.skip_bytes - before.len()).saturating_sub(self.padding);
        let len = left.min(fields.len());
        fragments.inspect(&mut fields[..len]);
    }

    /// Inspects a frame whose header is complete.
    fn begin_frame(&mut self, clock: impl Fn() -> Instant) -> Result<(), Fault> {
        let [high, middle, low, kind, flags, stream @ ..] = self.header;
        self.skip_bytes = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let stream = u32::from_be_bytes(stream) & MAX_WINDOW;
        if !std::mem::replace(&mut self.has_settings, true) {
            if kind != SETTINGS || flags & ACK != 0 {
                return Err(Fault::NoSettings);
            }
        } else {
            self.count_frame(clock)?;
        }
        if !has_right_size(kind, flags, self.skip_bytes) {
            return Err(Fault::FrameSize);
        }
        self.carries_head = matches!(kind, HEADERS | CONTINUATION);
        if self.carries_head {
            self.has_open_head = flags & END_HEADERS == 0;
            self.heads += u64::from(kind == HEADERS);
            self.before_fields = if kind == HEADERS { before_fields(flags) } else { 0 };
            self.padding = 0;
        }
        match kind {
            HEADERS if self.open_streams.contains(&stream) => {
                self.piece.wanted = self.skip_bytes.min(PIECE_BYTES);
                self.fragments = None;
                self.close(stream);
            }
            HEADERS => {
                self.last_stream = self.last_stream.max(stream);
                self.fragments = Some(Fragments::default());
                if flags & END_STREAM == 0 {
                    self.open(stream);
                }
            }
            DATA if flags & END_STREAM != 0 => self.close(stream),
            RST_STREAM => self.close(stream),
            SETTINGS => self.piece.wanted = self.skip_bytes.min(SETTING_BYTES),
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, stream: u32) {
        // A stream that the gateway has reset stays until the list is full.
        if self.open_streams.len() >= usize::try_from(self.limits.max_streams).unwrap_or(1) {
            self.open_streams.remove(0);
        }
        self.open_streams.push(stream);
    }

    fn close(&mut self, stream: u32) {
        self.open_streams.retain(|open| *open != stream);
    }

    /// Counts the current frame, if its type has a bound.
    fn count_frame(&mut self, clock: impl Fn() -> Instant) -> Result<(), Fault> {
        let [.., kind, flags, _, _, _, _] = self.header;
        match kind {
            HEADERS => Ok(()),
            DATA if self.skip_bytes > 0 || flags & END_STREAM != 0 => Ok(()),
            RST_STREAM => self.count(clock, Fault::Resets),
            WINDOW_UPDATE => self.count(clock, Fault::WindowUpdates),
            // SETTINGS, PING, PRIORITY, CONTINUATION, empty DATA, and unknown types.
            _ => self.count(clock, Fault::Control),
        }
    }

    fn count(&mut self, clock: impl Fn() -> Instant, fault: Fault) -> Result<(), Fault> {
        let now = clock();
        if now.saturating_duration_since(self.since) >= WINDOW {
            self.since = now;
            self.heads_before = [self.heads, self.heads_before[0]];
            (self.resets, self.control, self.window_updates) = (0, 0, 0);
        }
        let (count, most) = match fault {
            Fault::Resets => {
                let share = self.limits.most_resets(self.heads - self.heads_before[1]);
                (&mut self.resets, share)
            }
            Fault::WindowUpdates => (&mut self.window_updates, self.limits.max_window_updates),
            _ => (&mut self.control, self.limits.max_control_frames),
        };
        *count += 1;
        if *count > most { Err(fault) } else { Ok(()) }
    }
}

/// Whether a frame may have this size. The library checks the largest size.
fn has_right_size(kind: u8, flags: u8, size: usize) -> bool {
    match kind {
        DATA => flags & PADDED == 0 || size > 0,
        HEADERS => size >= before_fields(flags),
        PRIORITY => size == 5,
        RST_STREAM | WINDOW_UPDATE => size == 4,
        SETTINGS if flags & ACK != 0 => size == 0,
        SETTINGS => size.is_multiple_of(SETTING_BYTES),
        PING => size == 8,
        GOAWAY => size >= 8,
        _ => true,
    }
}

/// The number of bytes of HEADERS before the fields: the length of the padding, and the
/// priority.
const fn before_fields(flags: u8) -> usize {
    let padding = if flags & PADDED != 0 { 1 } else { 0 };
    padding + if flags & HAS_PRIORITY != 0 { 5 } else { 0 }
}

/// Whether the first field in the payload of HEADERS is a pseudo field (RFC 7541,
/// section 6). The library refuses one after another field. A name in the dynamic table is
/// not recognized; the library drops such a field.
fn begins_with_pseudo_field(payload: &[u8], flags: u8) -> bool {
    /// The pseudo fields of the static table (RFC 7541, appendix A).
    const STATIC: std::ops::RangeInclusive<u8> = 1..=14;
    let mut fields = payload.get(before_fields(flags)..).unwrap_or_default();
    // Changes of the size of the dynamic table, of one byte each.
    while let [0x20..=0x3e, rest @ ..] = fields {
        fields = rest;
    }
    let (name, literal) = match fields {
        [field @ 0x80..=0xff, ..] => (field & 0x7f, None),
        [field @ 0x40..=0x7f, rest @ ..] => (field & 0x3f, Some(rest)),
        [field @ 0x00..=0x1f, rest @ ..] => (field & 0xf, Some(rest)),
        _ => return false,
    };
    match (name, literal) {
        // `:`, plain or in the Huffman code, where it has seven bits.
        (0, Some(&[length, first, ..])) if length & 0x80 == 0 => first == b':',
        (0, Some(&[_, first, ..])) => first >> 1 == 0x5c,
        (name, _) => STATIC.contains(&name),
    }
}

//! A look at the frames of an HTTP/2 connection as they come in, so that a
//! client cannot keep us busy with frames that ask for nothing.
//!
//! Streams, their windows and the size of heads have bounds in the HTTP/2
//! library. What it does not bound is how often a client may reset streams,
//! change settings, ping, or send empty frames: each costs a few bytes to send
//! and some work here (RFC 9113, section 10.5). This counts them, a second at a
//! time, and says when it is enough.

use std::time::{Duration, Instant};

use super::settings::Http2Settings;

/// What a client sends first (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length, type, flags and stream of a frame.
const HEADER_BYTES: usize = 9;
const WINDOW: Duration = Duration::from_secs(1);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// On DATA and HEADERS.
const END_STREAM: u8 = 1;
/// On HEADERS and CONTINUATION.
const END_HEADERS: u8 = 4;

/// More of them in a second than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flood {
    #[error("the client resets too many streams")]
    Resets,
    #[error("the client sends too many frames that carry nothing")]
    Control,
    #[error("the client sends too many updates of windows")]
    WindowUpdates,
}

/// What has been seen of a connection.
#[derive(Debug)]
pub(super) struct Frames {
    limits: Http2Settings,
    /// Of the preface, or of the present frame's payload.
    skip_bytes: usize,
    header: [u8; HEADER_BYTES],
    /// Of the next frame's header.
    header_bytes: usize,
    /// How many heads have begun.
    heads: u64,
    /// A head has begun, and its last frame has not.
    has_open_head: bool,
    /// The present frame carries a head or a piece of one.
    carries_head: bool,
    since: Instant,
    resets: u32,
    control: u32,
    window_updates: u32,
}

impl Frames {
    /// A connection that begins now, with its preface.
    pub(super) fn new(limits: Http2Settings, now: Instant) -> Self {
        Self {
            limits,
            skip_bytes: PREFACE.len(),
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            heads: 0,
            has_open_head: false,
            carries_head: false,
            since: now,
            resets: 0,
            control: 0,
            window_updates: 0,
        }
    }

    /// Which head has begun to come and is not complete: the first, the second.
    pub(super) fn open_head(&self) -> Option<u64> {
        let is_open = self.has_open_head || (self.carries_head && self.skip_bytes > 0);
        is_open.then_some(self.heads)
    }

    /// Looks at what came. The clock is read only for frames that count.
    ///
    /// # Errors
    /// If there are too many of one kind.
    pub(super) fn see(
        &mut self,
        mut bytes: &[u8],
        clock: impl Fn() -> Instant,
    ) -> Result<(), Flood> {
        while !bytes.is_empty() {
            let skipped = self.skip_bytes.min(bytes.len());
            self.skip_bytes -= skipped;
            bytes = &bytes[skipped..];
            let wanted = (HEADER_BYTES - self.header_bytes).min(bytes.len());
            self.header[self.header_bytes..][..wanted].copy_from_slice(&bytes[..wanted]);
            self.header_bytes += wanted;
            bytes = &bytes[wanted..];
            if self.header_bytes == HEADER_BYTES {
                self.header_bytes = 0;
                self.frame(&clock)?;
            }
        }
        Ok(())
    }

    /// The header of a frame is there.
    fn frame(&mut self, clock: impl Fn() -> Instant) -> Result<(), Flood> {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.skip_bytes = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.carries_head = matches!(kind, HEADERS | CONTINUATION);
        if self.carries_head {
            self.has_open_head = flags & END_HEADERS == 0;
            self.heads += u64::from(kind == HEADERS);
        }
        match kind {
            HEADERS => {}
            DATA if self.skip_bytes > 0 || flags & END_STREAM != 0 => {}
            RST_STREAM => self.count(clock, Flood::Resets)?,
            WINDOW_UPDATE => self.count(clock, Flood::WindowUpdates)?,
            // SETTINGS, PING, PRIORITY, CONTINUATION, empty DATA, and what we do not know.
            _ => self.count(clock, Flood::Control)?,
        }
        Ok(())
    }

    fn count(&mut self, clock: impl Fn() -> Instant, flood: Flood) -> Result<(), Flood> {
        let now = clock();
        if now.saturating_duration_since(self.since) >= WINDOW {
            self.since = now;
            (self.resets, self.control, self.window_updates) = (0, 0, 0);
        }
        let (count, most) = match flood {
            Flood::Resets => (&mut self.resets, self.limits.max_resets),
            Flood::Control => (&mut self.control, self.limits.max_control_frames),
            Flood::WindowUpdates => (&mut self.window_updates, self.limits.max_window_updates),
        };
        *count += 1;
        if *count > most { Err(flood) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::monotonic;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        frame.resize(HEADER_BYTES + payload, 0);
        frame
    }

    fn limits() -> Http2Settings {
        Http2Settings { max_resets: 3, max_control_frames: 5, ..Http2Settings::default() }
    }

    fn connection(frames: &[Vec<u8>]) -> Vec<u8> {
        [&PREFACE[..], &frames.concat()].concat()
    }

    /// What becomes of these frames when they come in pieces of so many bytes.
    fn outcome(frames: &[Vec<u8>], piece: usize) -> Result<Option<u64>, Flood> {
        let start = monotonic();
        let mut seen = Frames::new(limits(), start);
        for bytes in connection(frames).chunks(piece) {
            seen.see(bytes, || start)?;
        }
        Ok(seen.open_head())
    }

    #[test]
    fn each_kind_that_carries_nothing_has_a_bound() {
        let most = |kind, flags, payload, count| {
            let frames = vec![frame(kind, flags, payload); count];
            assert_eq!(outcome(&frames, 7), Ok(None), "{count} of {kind}");
            outcome(&[&frames[..], &frames[..1]].concat(), 7)
        };
        assert_eq!(most(RST_STREAM, 0, 4, 3), Err(Flood::Resets));
        for (kind, payload) in [(4, 6), (6, 8), (2, 5), (DATA, 0), (0xf0, 100)] {
            assert_eq!(most(kind, 0, payload, 5), Err(Flood::Control), "{kind}");
        }
        assert_eq!(most(CONTINUATION, END_HEADERS, 9, 5), Err(Flood::Control));
    }

    #[test]
    fn what_carries_something_has_none() {
        let data = vec![frame(DATA, 0, 1000); 50];
        let ends = vec![frame(DATA, END_STREAM, 0); 50];
        let heads = vec![frame(HEADERS, END_HEADERS, 40); 50];
        assert_eq!(outcome(&[data, ends, heads].concat(), 100), Ok(None));
    }

    #[test]
    fn every_second_begins_anew() {
        let start = monotonic();
        let mut seen = Frames::new(limits(), start);
        seen.see(PREFACE, || start).unwrap();
        for second in 0..10 {
            let now = start + WINDOW * second;
            for _ in 0..3 {
                seen.see(&frame(RST_STREAM, 0, 4), || now).unwrap();
            }
        }
        let last = start + WINDOW * 9;
        assert_eq!(seen.see(&frame(RST_STREAM, 0, 4), || last), Err(Flood::Resets));
    }

    #[test]
    fn a_head_is_open_until_its_last_frame() {
        let begun = [frame(HEADERS, 0, 40)];
        assert_eq!(outcome(&begun, 100), Ok(Some(1)));
        let ended = [frame(HEADERS, 0, 40), frame(CONTINUATION, END_HEADERS, 4)];
        assert_eq!(outcome(&ended, 100), Ok(None));
        assert_eq!(outcome(&[&ended[..], &begun[..]].concat(), 100), Ok(Some(2)));
        let now = monotonic();
        let mut seen = Frames::new(limits(), now);
        let whole = connection(&[frame(HEADERS, END_HEADERS, 40)]);
        seen.see(&whole[..whole.len() - 1], || now).unwrap();
        assert_eq!(seen.open_head(), Some(1), "its last byte has not come");
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            kinds in proptest::collection::vec((0_u8..12, 0_u8..8, 0_usize..40), 0..20),
            piece in 1_usize..60,
        ) {
            let frames: Vec<_> =
                kinds.iter().map(|(kind, flags, payload)| frame(*kind, *flags, *payload)).collect();
            prop_assert_eq!(outcome(&frames, piece), outcome(&frames, usize::MAX));
        }
    }
}

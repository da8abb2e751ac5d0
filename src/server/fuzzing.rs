//! Fuzz targets of the server: the bytes that clients send.
//!
//! Bytes that pass are read again by another parser, which must find the same end of each
//! head and each body.

mod http1;

use rustls::pki_types::CertificateDer;
use tollgate_core::request::Malformed;
use tollgate_core::time::monotonic;

use super::http1::chunks::Chunks;
use super::http1::guard::guarded::Guarded;
use super::http1::head::{Head, HeadReader};
use super::http2::{Fault, Frames, PREFACE};
use super::settings::{HeadBounds, Http2Settings};
use super::transport::{identity, proxy_protocol};
use crate::message::fuzzing::pieces;

const BOUNDS: HeadBounds =
    HeadBounds { bytes: 2048, target_bytes: 256, fields: 16, disguised_names: false };

/// The head of a request of HTTP/1.
pub fn head(input: &[u8]) {
    let Some((&seed, bytes)) = input.split_first() else { return };
    let verdict = HeadReader::default().read(bytes, &BOUNDS);
    assert_eq!(head_in_pieces(bytes, seed), verdict, "pieces make a difference");
    if let Ok(Some(head)) = verdict {
        assert_eq!(HeadReader::default().read(&bytes[..head.len], &BOUNDS), verdict);
        assert_eq!(http1::read_head(bytes).map(|it| it.head), Some(head));
    }
}

fn head_in_pieces(bytes: &[u8], seed: u8) -> Result<Option<Head>, Malformed> {
    let mut reader = HeadReader::default();
    let mut come = 0;
    for piece in pieces(bytes, seed) {
        come += piece.len();
        match reader.read(&bytes[..come], &BOUNDS) {
            Ok(None) => {}
            verdict => return verdict,
        }
    }
    Ok(None)
}

/// The chunks of a body, and its trailers.
pub fn chunks(input: &[u8]) {
    let Some((&seed, bytes)) = input.split_first() else { return };
    let mut whole = Chunks::new();
    let verdict = whole.check(bytes, &BOUNDS);
    let mut chunks = Chunks::new();
    let mut passed = 0;
    let mut in_pieces = Ok(());
    for piece in pieces(bytes, seed) {
        match chunks.check(piece, &BOUNDS) {
            Ok(count) => passed += count,
            Err((count, malformed)) => {
                passed += count;
                in_pieces = Err(malformed);
                break;
            }
        }
    }
    match verdict {
        Ok(count) => {
            assert_eq!((in_pieces, passed, chunks), (Ok(()), count, whole));
            let end = whole.has_ended().then_some(count);
            assert_eq!(http1::read_chunks(&bytes[..count]), end, "readers differ");
        }
        Err((count, malformed)) => assert_eq!((in_pieces, passed), (Err(malformed), count)),
    }
}

/// The bytes that an HTTP/1 client sends, and those that pass the guard.
pub fn guard(input: &[u8]) {
    let Some((&[seed, flags], bytes)) = input.split_first_chunk() else { return };
    let granted = flags & 1 == 1;
    let whole = passed([bytes].into_iter(), 8192, granted);
    let room = if flags & 2 == 2 { 1 + usize::from(flags >> 2) } else { 8192 };
    let in_pieces = passed(pieces(bytes, seed), room, granted);
    assert_eq!(in_pieces, whole, "pieces make a difference");
}

/// The result for the bytes of a client. Empty lines before a head pass only if they
/// arrive together with it, so they are left out.
#[derive(Debug, PartialEq, Eq)]
struct Passed {
    seen: Vec<u8>,
    refused: Option<Malformed>,
    broken: Option<Malformed>,
}

fn passed<'a>(pieces: impl Iterator<Item = &'a [u8]>, room: usize, granted: bool) -> Passed {
    let mut guarded = Guarded::new();
    guarded.room = room;
    pieces.for_each(|piece| guarded.send(piece));
    let mut seen = Vec::new();
    let mut broken = None;
    loop {
        match guarded.read() {
            Ok(more) => seen.extend(more),
            Err((more, malformed)) => {
                seen.extend(more);
                broken = Some(malformed);
                break;
            }
        }
        if !guarded.answers_upgrade(granted) {
            break;
        }
    }
    let seen = http1::read_connection(&seen, granted);
    Passed { seen, refused: guarded.exchange.refused(), broken }
}

/// A header of the PROXY protocol.
pub fn proxied(input: &[u8]) {
    let Ok(Some((addresses, length))) = proxy_protocol::parse(input) else { return };
    let header = &input[..length];
    assert!(matches!(proxy_protocol::parse(header), Ok(Some(same)) if same == (addresses, length)));
    for shorter in 0..length {
        let early = proxy_protocol::parse(&header[..shorter]);
        assert!(matches!(early, Ok(None)), "{shorter} of {length} bytes are {early:?}");
    }
}

/// The frames of a connection of HTTP/2.
pub fn frames(input: &[u8]) {
    let Some((&seed, bytes)) = input.split_first() else { return };
    let limits = Http2Settings {
        max_resets: 2,
        max_control_frames: 4,
        max_window_updates: 3,
        ..Http2Settings::default()
    };
    let start = monotonic();
    let see = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut frames = Frames::new(limits, start);
        frames.inspect(&mut PREFACE.clone(), || start)?;
        for piece in pieces {
            frames.inspect(&mut piece.to_vec(), || start)?;
        }
        Ok(frames.open_head())
    };
    let seen = see(&mut [bytes].into_iter());
    assert_eq!(see(&mut pieces(bytes, seed)), seen, "pieces make a difference");
    match seen {
        Ok(_) | Err(Fault::Resets | Fault::Control | Fault::WindowUpdates) => {
            assert_eq!(count_frames(bytes, &limits), seen.map(drop), "readers differ");
        }
        Err(Fault::NoSettings | Fault::FrameSize | Fault::Window | Fault::PseudoTrailer) => {}
    }
}

/// Counts the frames independently.
fn count_frames(mut bytes: &[u8], limits: &Http2Settings) -> Result<(), Fault> {
    let mut is_first = true;
    let mut resets = 0;
    let mut control = 0;
    let mut updates = 0;
    while let Some((&[high, middle, low, kind, flags, _, _, _, _], rest)) =
        bytes.split_first_chunk()
    {
        let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap_or(0);
        match kind {
            // The SETTINGS that every connection begins with.
            _ if std::mem::replace(&mut is_first, false) => {}
            0 if length > 0 || flags & 1 == 1 => {}
            1 => {}
            3 => resets += 1,
            8 => updates += 1,
            _ => control += 1,
        }
        let floods = [
            (resets > limits.max_resets, Fault::Resets),
            (control > limits.max_control_frames, Fault::Control),
            (updates > limits.max_window_updates, Fault::WindowUpdates),
        ];
        if let Some((_, flood)) = floods.into_iter().find(|(is_flood, _)| *is_flood) {
            return Err(flood);
        }
        bytes = rest.get(length..).unwrap_or_default();
    }
    Ok(())
}

/// A client certificate.
pub fn certificate(input: &[u8]) {
    let certificate = CertificateDer::from(input);
    let identity = identity::identity(&certificate);
    assert!(identity.is_none_or(|identity| !identity.is_empty()), "an identity is not empty");
}

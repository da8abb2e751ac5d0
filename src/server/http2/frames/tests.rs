//! The inspection of frames.

use proptest::prelude::*;
use tollgate_core::time::monotonic;

use super::*;

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
    [&PREFACE[..], &frame(SETTINGS, 0, 0), &frames.concat()].concat()
}

/// The result for these frames when they arrive in pieces of `piece` bytes.
fn outcome(frames: &[Vec<u8>], piece: usize) -> Result<Option<u64>, Fault> {
    let start = monotonic();
    let mut seen = Frames::new(limits(), start);
    for bytes in connection(frames).chunks_mut(piece) {
        seen.inspect(bytes, || start)?;
    }
    Ok(seen.open_head())
}

#[test]
fn each_type_without_content_has_a_bound() {
    let most = |kind, flags, payload, count| {
        let frames = vec![frame(kind, flags, payload); count];
        assert_eq!(outcome(&frames, 7), Ok(None), "{count} of {kind}");
        outcome(&[&frames[..], &frames[..1]].concat(), 7)
    };
    assert_eq!(most(RST_STREAM, 0, 4, 3), Err(Fault::Resets));
    for (kind, payload) in [(4, 6), (6, 8), (2, 5), (DATA, 0), (0xf0, 100)] {
        assert_eq!(most(kind, 0, payload, 5), Err(Fault::Control), "{kind}");
    }
    assert_eq!(most(CONTINUATION, END_HEADERS, 9, 5), Err(Fault::Control));
}

#[test]
fn frames_with_content_have_no_bound() {
    let data = vec![frame(DATA, 0, 1000); 50];
    let ends = vec![frame(DATA, END_STREAM, 0); 50];
    let heads = vec![frame(HEADERS, END_HEADERS, 40); 50];
    assert_eq!(outcome(&[data, ends, heads].concat(), 100), Ok(None));
}

#[test]
fn the_counts_begin_again_each_second() {
    let start = monotonic();
    let mut seen = Frames::new(limits(), start);
    seen.inspect(&mut connection(&[]), || start).unwrap();
    for second in 0..10 {
        let now = start + WINDOW * second;
        for _ in 0..3 {
            seen.inspect(&mut frame(RST_STREAM, 0, 4), || now).unwrap();
        }
    }
    let last = start + WINDOW * 9;
    assert_eq!(seen.inspect(&mut frame(RST_STREAM, 0, 4), || last), Err(Fault::Resets));
}

/// A proxy that asks for decisions cancels each call that takes too long.
#[test]
fn a_share_of_the_streams_may_be_reset() {
    let start = monotonic();
    let faults = |reset_percent, streams: &[u32], resets| {
        let mut seen = Frames::new(Http2Settings { reset_percent, ..limits() }, start);
        seen.inspect(&mut connection(&[]), || start).unwrap();
        for (second, count) in (0..).zip(streams) {
            let now = start + WINDOW * second;
            for _ in 0..*count {
                seen.inspect(&mut frame(HEADERS, END_HEADERS | END_STREAM, 40), || now).unwrap();
            }
            // A frame without content begins the next second.
            seen.inspect(&mut frame(PING, 0, 8), || now).unwrap();
        }
        let last = start + WINDOW * u32::try_from(streams.len() - 1).unwrap();
        let mut results =
            (0..resets).map(|_| seen.inspect(&mut frame(RST_STREAM, 0, 4), || last).is_err());
        results.position(|it| it)
    };
    assert_eq!(faults(100, &[5000], 5000), None);
    assert_eq!(faults(100, &[5000], 5001), Some(5000));
    assert_eq!(faults(50, &[5000], 5000), Some(2500));
    // The streams of the second before count too, and those of earlier ones do not.
    assert_eq!(faults(100, &[300, 200], 500), None);
    assert_eq!(faults(100, &[300, 200, 0], 250), Some(3));
    // A few resets are always allowed.
    assert_eq!(faults(100, &[0], 3), None);
    assert_eq!(faults(0, &[5000], 4), Some(3));
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
    let mut whole = connection(&[frame(HEADERS, END_HEADERS, 40)]);
    let len = whole.len();
    seen.inspect(&mut whole[..len - 1], || now).unwrap();
    assert_eq!(seen.open_head(), Some(1), "its last byte has not arrived");
}

proptest! {
    #[test]
    fn the_pieces_make_no_difference(
        kinds in proptest::collection::vec((0_u8..12, 0_u8..8, 0_usize..40), 0..20),
        piece in 1_usize..60,
    ) {
        let frames: Vec<_> =
            kinds.iter().map(|(kind, flags, payload)| frame(*kind, *flags, *payload)).collect();
        prop_assert_eq!(outcome(&frames, piece), outcome(&frames, usize::MAX));
    }
}

/// A frame of stream 3 with this payload.
fn carrying(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut carrying = frame(kind, flags, payload.len());
    carrying[8] = 3;
    carrying[HEADER_BYTES..].copy_from_slice(payload);
    carrying
}

#[test]
fn the_first_frame_is_settings() {
    let seen = |first: &[u8]| {
        let start = monotonic();
        Frames::new(limits(), start).inspect(&mut [&PREFACE[..], first].concat(), || start)
    };
    assert_eq!(seen(&frame(SETTINGS, 0, 0)), Ok(()));
    for first in [frame(SETTINGS, ACK, 0), frame(HEADERS, END_HEADERS, 40), frame(PING, 0, 8)] {
        assert_eq!(seen(&first), Err(Fault::NoSettings), "{first:?}");
    }
}

#[test]
fn a_frame_has_the_size_of_its_type() {
    for (kind, flags, right, wrong) in [
        (DATA, PADDED, 1, 0),
        (HEADERS, END_HEADERS | PADDED | HAS_PRIORITY, 6, 5),
        (PRIORITY, 0, 5, 4),
        (RST_STREAM, 0, 4, 5),
        (SETTINGS, 0, 12, 13),
        (SETTINGS, ACK, 0, 6),
        (PING, 0, 8, 6),
        (GOAWAY, 0, 8, 7),
        (WINDOW_UPDATE, 0, 4, 3),
    ] {
        assert_eq!(outcome(&[frame(kind, flags, right)], 7), Ok(None), "{kind}");
        let wrong = [frame(kind, flags, wrong)];
        assert_eq!(outcome(&wrong, 7), Err(Fault::FrameSize), "{kind}");
    }
}

#[test]
fn a_window_has_a_largest_size() {
    let settings = |value: u32| {
        let table = [0, 1, 0xff, 0xff, 0xff, 0xff];
        let window = [&[0, 4][..], &value.to_be_bytes()].concat();
        [carrying(SETTINGS, 0, &[&table[..], &window].concat())]
    };
    for piece in [1, 5, 100] {
        assert_eq!(outcome(&settings(MAX_WINDOW), piece), Ok(None));
        assert_eq!(outcome(&settings(MAX_WINDOW + 1), piece), Err(Fault::Window));
    }
}

#[test]
fn trailers_begin_with_no_pseudo_field() {
    let head = carrying(HEADERS, END_HEADERS, &[0x82]);
    for (trailers, flags, is_good) in [
        (&b"\x82"[..], 0, false),
        (b"\x44\x01/", 0, false),
        (b"\x04\x01/", 0, false),
        (b"\x14\x01/", 0, false),
        (b"\x00\x05:path\x01/", 0, false),
        (b"\x40\x84\xb9\x58\xd3\x3f\x01/", 0, false),
        (b"\x20\x3e\x82", 0, false),
        (b"\x00\x82\0\0", PADDED, false),
        (b"\0\0\0\0\0\x82", HAS_PRIORITY, false),
        (b"\x00\x03x-a\x01b", 0, true),
        (b"\x8f", 0, true),
        (b"\xbe", 0, true),
        (b"\x0f\x01\x01a", 0, true),
        (b"", 0, true),
    ] {
        let frames = [head.clone(), carrying(HEADERS, END_HEADERS | END_STREAM | flags, trailers)];
        let expected = if is_good { Ok(None) } else { Err(Fault::PseudoTrailer) };
        for piece in [1, 100] {
            assert_eq!(outcome(&frames, piece), expected, "{trailers:?}");
        }
        let whole = carrying(HEADERS, END_HEADERS | END_STREAM, &[0x82]);
        assert_eq!(outcome(&[whole.clone(), whole], 100), Ok(None), "the stream has ended");
    }
}

#[test]
fn a_goaway_has_the_code_and_the_last_stream() {
    let start = monotonic();
    let mut seen = Frames::new(limits(), start);
    seen.inspect(&mut connection(&[carrying(HEADERS, END_HEADERS, &[0x82])]), || start).unwrap();
    let told = [&[0, 0, 8, GOAWAY, 0, 0, 0, 0, 0][..], &[0, 0, 0, 3], &[0, 0, 0, 6]].concat();
    assert_eq!(seen.goaway(Fault::FrameSize)[..], told);
}

/// Only fragments in the fields of heads are replaced.
#[test]
fn fragments_are_replaced_in_the_fields_of_heads_only() {
    let path = b"\x44\x02/#";
    let padded = [&[4][..], path, b"\x44\x02/#"].concat();
    let prior = [&b"\x44\x02/#\0"[..], path].concat();
    let both = [&[4, 0x44, 2, b'/', b'#', 0][..], path, path].concat();
    for (frames, spoilt) in [
        (vec![carrying(HEADERS, END_HEADERS, path)], vec![3]),
        (vec![carrying(HEADERS, END_HEADERS | PADDED, &padded)], vec![4]),
        (vec![carrying(HEADERS, END_HEADERS | HAS_PRIORITY, &prior)], vec![8]),
        (vec![carrying(HEADERS, END_HEADERS | PADDED | HAS_PRIORITY, &both)], vec![9]),
        (
            vec![carrying(HEADERS, 0, &path[..3]), carrying(CONTINUATION, END_HEADERS, &path[3..])],
            vec![3 + HEADER_BYTES],
        ),
        (
            vec![
                carrying(HEADERS, END_HEADERS, path),
                carrying(HEADERS, END_HEADERS, b"\x0f\x00\x02/#\x44\x02/#"),
            ],
            vec![3],
        ),
        (vec![carrying(DATA, 0, path)], vec![]),
    ] {
        let sent = connection(&frames);
        let mut expected = sent.clone();
        let first = connection(&[]).len() + HEADER_BYTES;
        for at in spoilt {
            assert_eq!(std::mem::replace(&mut expected[first + at], b'>'), b'#');
        }
        for piece in [1, 3, 1000] {
            let mut seen = Frames::new(limits(), monotonic());
            let mut read = sent.clone();
            let start = monotonic();
            for bytes in read.chunks_mut(piece) {
                seen.inspect(bytes, || start).unwrap();
            }
            assert_eq!(read, expected, "in pieces of {piece}");
        }
    }
}

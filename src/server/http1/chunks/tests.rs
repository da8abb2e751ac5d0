//! Chunked bodies, complete and in pieces.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const BOUNDS: HeadBounds =
    HeadBounds { bytes: 100, target_bytes: 100, fields: 3, disguised_names: false };

/// The number of bytes of the body, and whether it has ended.
fn check(bytes: &[u8]) -> Result<(usize, bool), (usize, Malformed)> {
    let mut chunks = Chunks::new();
    chunks.check(bytes, &BOUNDS).map(|count| (count, chunks.has_ended()))
}

#[test]
fn a_body_ends_with_its_last_chunk() {
    for body in [
        "0\r\n\r\n",
        "3\r\nabc\r\n0\r\n\r\n",
        "a\r\n0123456789\r\nA;x=\"y\"\r\n\r\n\r\n\r\n\r\n\r\n\r\n000\r\n\r\n",
        "1 \t; a = b\r\nx\r\n0;last\r\nX_Sum: 1\r\nEmpty:\r\n\r\n",
    ] {
        let followed = format!("{body}GET /");
        assert_eq!(check(followed.as_bytes()), Ok((body.len(), true)), "{body:?}");
        let cut = &body.as_bytes()[..body.len() - 1];
        assert_eq!(check(cut), Ok((cut.len(), false)), "{body:?}");
    }
}

#[test]
fn what_is_read_in_two_ways_is_no_body() {
    use Malformed::{BadChunk, BadTrailer, ExtensionsTooLarge, TrailersTooLarge};
    let long = format!("1;{}", "x".repeat(9000));
    let long_trailer = format!("0\r\nX: {}", "x".repeat(101));
    for (body, malformed) in [
        ("x\r\n", BadChunk),
        ("-1\r\n", BadChunk),
        ("+1\r\n", BadChunk),
        ("0x1\r\n", BadChunk),
        (" 1\r\n", BadChunk),
        ("1 \r\n", BadChunk),
        ("1 1\r\n", BadChunk),
        (";a\r\n", BadChunk),
        ("\r\n", BadChunk),
        ("1\na\n0\n\n", BadChunk),
        ("1\ra", BadChunk),
        ("1;a\nb\r\n", BadChunk),
        ("1;a\rb\r\n", BadChunk),
        ("1;a\0b\r\n", BadChunk),
        ("1\r\nab\r\n", BadChunk),
        ("1\r\na\n0\r\n\r\n", BadChunk),
        ("1\r\na0\r\n\r\n", BadChunk),
        ("10000000000000000\r\n", BadChunk),
        ("00000000000000001\r\n", BadChunk),
        ("0\r\n x: 1\r\n", BadTrailer),
        ("0\r\nX : 1\r\n", BadTrailer),
        ("0\r\nX: 1\n\n", BadTrailer),
        ("0\r\nX: a\r\n b\r\n\r\n", BadTrailer),
        ("0\r\nX: \0\r\n\r\n", BadTrailer),
        ("0\r\nX\r\n\r\n", BadTrailer),
        ("0\r\n\rX", BadTrailer),
        ("0\r\n:\r\n", BadTrailer),
        ("0\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n", TrailersTooLarge),
        (&long_trailer, TrailersTooLarge),
        (&long, ExtensionsTooLarge),
    ] {
        let verdict = check(body.as_bytes());
        assert!(verdict.is_err_and(|(_, fault)| fault == malformed), "{body:?}: {verdict:?}");
    }
}

#[test]
fn the_largest_chunk_is_counted() {
    let mut chunks = Chunks::new();
    assert_eq!(chunks.check(b"ffffffffffffffff\r\nabc", &BOUNDS), Ok(21));
    assert!(!chunks.has_ended());
}

/// Bodies, mostly valid, with other bytes after them.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "1\r\na\r\n",
        "2;x=y\r\nab\r\n",
        "0\r\n",
        "\r\n",
        "X: 1\r\n",
        "\n",
        "\r",
        "b",
        " ",
        "0\r\n\r\n",
    ]);
    vec(piece, 0..10).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn the_pieces_of_a_body_make_no_difference(
        bytes in prop_oneof![bodies(), vec(any::<u8>(), 0..40)],
        cut in 0_usize..80,
    ) {
        let cut = cut.min(bytes.len());
        let mut chunks = Chunks::new();
        let first = chunks.check(&bytes[..cut], &BOUNDS);
        let both = first.and_then(|first| {
            let rest = chunks.check(&bytes[first..], &BOUNDS);
            rest.map(|rest| first + rest).map_err(|(at, malformed)| (first + at, malformed))
        });
        let whole = check(&bytes);
        prop_assert_eq!(both, whole.map(|(count, _)| count));
        prop_assert!(both.is_err() || chunks.has_ended() == whole.is_ok_and(|(_, ended)| ended));
    }
}

//! A `#` in a path becomes a `>`, and nothing else changes.

use proptest::prelude::*;

use super::*;

/// These fields after the inspection, in pieces of `piece` bytes.
fn followed(fields: &[u8], piece: usize) -> Vec<u8> {
    let mut followed = fields.to_vec();
    let mut fragments = Fragments::default();
    followed.chunks_mut(piece).for_each(|piece| fragments.inspect(piece));
    followed
}

#[track_caller]
fn assert_becomes(fields: &[u8], expected: &[u8]) {
    for piece in [1, 2, 3, usize::MAX] {
        assert_eq!(followed(fields, piece), expected, "in pieces of {piece}");
    }
}

#[test]
fn a_hash_is_replaced_in_paths_and_nowhere_else() {
    for name in [0x04, 0x05, 0x14, 0x44, 0x45] {
        assert_becomes(&[name, 4, b'/', b'#', b'a', b'#'], &[name, 4, b'/', b'>', b'a', b'>']);
    }
    for other in [&b"\x41\x02a#"[..], b"\x00\x02a#\x02b#", b"\x0f\x05\x02a#", b"\x7f\x85\x01\x02a#"]
    {
        let path = b"\x82\x44\x02/#";
        assert_becomes(&[other, &path[..]].concat(), &[other, b"\x82\x44\x02/>"].concat());
    }
    for name in [&b"\x00\x05:path"[..], b"\x40\x84\xb9\x58\xd3\x3f"] {
        assert_becomes(&[name, b"\x02/#"].concat(), &[name, b"\x02/>"].concat());
    }
    for other in [&b"\x00\x05:pats\x02/#"[..], b"\x00\x84:pat\x02/#", b"\x00\x05xpath\x02/#"] {
        assert_becomes(other, other);
    }
    assert_becomes(b"\x3f\xe1\x1f\xff\x80\x01\x44\x02/#", b"\x3f\xe1\x1f\xff\x80\x01\x44\x02/>");
    assert_becomes(b"\x44\x00\x04\x01#", b"\x44\x00\x04\x01>");
}

#[test]
fn a_long_path_is_inspected_to_its_end() {
    let path = |last| [&b"\x44\x7f\xd1\x0f"[..], &vec![b'/'; 2127], &[last], b"\x41\x01#"].concat();
    assert_becomes(&path(b'#'), &path(b'>'));
}

/// RFC 7541, appendix B.
#[test]
fn a_hash_in_the_huffman_code_is_replaced() {
    // `/#`, `a#b`, `##`
    assert_becomes(b"\x44\x83\x63\xfe\xbf", b"\x44\x83\x63\xfe\xff");
    assert_becomes(b"\x44\x83\x1f\xfd\x47\x82", b"\x44\x83\x1f\xfd\xc7\x82");
    assert_becomes(b"\x44\x83\xff\xaf\xfa\x44\x01#", b"\x44\x83\xff\xbf\xfb\x44\x01>");
    // `www.example.com`, and a value that is no path
    let other = b"\x44\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x41\x83\x63\xfe\xbf";
    assert_becomes(other, other);
}

proptest! {
    #[test]
    fn pieces_make_no_difference(fields in any::<Vec<u8>>(), piece in 1_usize..40) {
        prop_assert_eq!(followed(&fields, piece), followed(&fields, usize::MAX));
    }
}

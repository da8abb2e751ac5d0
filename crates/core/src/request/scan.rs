//! Scans of the bytes of a text.
//!
//! Each byte of each head is scanned, so a scan processes blocks of a fixed length. If
//! the predicate consists of comparisons without branches (`|` and `&`, not `||` and `&&`), the
//! compiler turns a block into a few wide instructions.

const BLOCK: usize = 16;

/// The number of bytes at the start of `bytes` that `is_in` accepts.
#[inline]
pub fn leading(bytes: &[u8], is_in: impl Fn(u8) -> bool) -> usize {
    let blocks = bytes.chunks_exact(BLOCK);
    let rest = blocks.remainder();
    for (index, block) in blocks.enumerate() {
        let mut others = [0; BLOCK];
        for (other, &byte) in others.iter_mut().zip(block) {
            *other = if is_in(byte) { 0 } else { u8::MAX };
        }
        let others = u128::from_le_bytes(others);
        if others != 0 {
            return index * BLOCK + others.trailing_zeros() as usize / 8;
        }
    }
    let in_rest = rest.iter().position(|&byte| !is_in(byte)).unwrap_or(rest.len());
    bytes.len() - rest.len() + in_rest
}

/// Whether `is_in` accepts all `bytes`.
#[inline]
pub fn all(bytes: &[u8], is_in: impl Fn(u8) -> bool) -> bool {
    const HALF: usize = BLOCK / 2;
    let is_whole = |part: &[u8]| part.iter().fold(true, |are_in, &byte| are_in & is_in(byte));
    // The last block overlaps the one before it.
    if let Some(last) = bytes.last_chunk::<BLOCK>() {
        return bytes.chunks_exact(BLOCK).all(is_whole) && is_whole(last);
    }
    match (bytes.first_chunk::<HALF>(), bytes.last_chunk::<HALF>()) {
        (Some(first), Some(last)) => is_whole(first) & is_whole(last),
        _ => is_whole(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_ends_a_scan_wherever_it_stands() {
        let is_in = |byte: u8| byte != b'#';
        for length in 0..70 {
            let mut bytes = vec![b'x'; length];
            assert_eq!((leading(&bytes, is_in), all(&bytes, is_in)), (length, true));
            for at in (0..length).rev() {
                // Those behind it have no influence.
                bytes[at] = b'#';
                assert_eq!(leading(&bytes, is_in), at, "of {length}");
                let mut one = vec![b'x'; length];
                one[at] = b'#';
                assert_eq!((leading(&one, is_in), all(&one, is_in)), (at, false), "of {length}");
            }
        }
    }
}

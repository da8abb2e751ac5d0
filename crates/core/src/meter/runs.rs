//! The runs of bytes of a document that are read at once.
//!
//! Eight bytes are compared together, as the bytes of a word. Compilers compare several words
//! together, where the processor can.

/// The bytes of a word.
const WORD: usize = size_of::<u64>();
/// The bytes of which the result is looked at together, in a long run.
const BLOCK: usize = 4 * WORD;

/// The number of leading bytes of a string that are plain: ASCII, and no escape, quotation mark or
/// control character.
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    run(bytes, |word| not_unescaped(word) | word)
}

/// The number of leading bytes of a string that are no escape, quotation mark or control character.
pub(super) fn unescaped_run(bytes: &[u8]) -> usize {
    // The other tests hold for ASCII only. Of a byte beyond ASCII, the highest bit is set.
    run(bytes, |word| not_unescaped(word) & !word)
}

/// The number of leading bytes that are blanks between tokens (RFC 8259, section 2).
pub(super) fn blank_run(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_blank(**byte)).count()
}

/// Whether a byte is such a blank.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// This byte in all places of a word.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; WORD])
}

/// Finds quotation marks, backslashes and control characters. In the result, the highest bit of the
/// first such byte is set, and that of no ASCII character before it. Places behind it say nothing,
/// because a subtraction borrows from them.
const fn not_unescaped(word: u64) -> u64 {
    let less_than_blank = word.wrapping_sub(each(b' '));
    let is_quote = (word ^ each(b'"')).wrapping_sub(each(1));
    let is_backslash = (word ^ each(b'\\')).wrapping_sub(each(1));
    less_than_blank | is_quote | is_backslash
}

/// The number of leading bytes before the first that is marked: `marks` sets its highest bit, and
/// that of no byte before it.
fn run(bytes: &[u8], marks: impl Fn(u64) -> u64) -> usize {
    let mut read = 0;
    while let Some(word) = word_at(bytes, read) {
        let found = marks(word) & each(0x80);
        if found != 0 {
            return read + first_mark(found);
        }
        // Most keys and many values end in the first word, so blocks begin after it.
        if read == 0 {
            let blocks = bytes[WORD..].chunks_exact(BLOCK);
            read = BLOCK * blocks.take_while(|block| !has_mark(block, &marks)).count();
        }
        read += WORD;
    }
    // The bytes that are missing end the run.
    let mut last = [0; WORD];
    last[..bytes.len() - read].copy_from_slice(&bytes[read..]);
    let found = marks(u64::from_le_bytes(last)) & each(0x80);
    read + first_mark(found)
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

fn has_mark(block: &[u8], marks: &impl Fn(u64) -> u64) -> bool {
    let words = block.chunks_exact(WORD).filter_map(|word| word.first_chunk());
    words.fold(0, |all, word| all | marks(u64::from_le_bytes(*word))) & each(0x80) != 0
}

/// The place of the first byte whose highest bit is set. Without one, it is behind the last.
fn first_mark(marks: u64) -> usize {
    usize::try_from(marks.trailing_zeros() / u8::BITS).unwrap_or(WORD)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Bytes that end a run, that are next to such bytes, and others.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let special = b"\"!#\\[]\x00\x1F \x7F\x80\x81\xA0\xA2\xDC\xFF\t\n\r";
        let long = vec(prop_oneof![b' '..=b'!', b'#'..=b'[', b']'..=0x7F, 0x80..=0xFF_u8], 0..80);
        let rest = vec(prop_oneof![proptest::sample::select(&special[..]), any::<u8>()], 0..20);
        (long, rest).prop_map(|(long, rest)| [long, rest].concat())
    }

    fn is_escape(byte: u8) -> bool {
        byte < b' ' || byte == b'"' || byte == b'\\'
    }

    proptest! {
        #[test]
        fn a_run_ends_at_the_first_byte_that_is_not_like_the_others(bytes in bytes()) {
            let until = |ends: &dyn Fn(u8) -> bool| bytes.iter().take_while(|it| !ends(**it)).count();
            let plain = until(&|byte| is_escape(byte) || byte > 0x7F);
            prop_assert_eq!(plain_run(&bytes), plain);
            prop_assert_eq!(unescaped_run(&bytes), until(&is_escape));
            prop_assert_eq!(blank_run(&bytes), until(&|byte| !b" \t\n\r".contains(&byte)));
        }
    }

    #[test]
    fn each_byte_ends_a_run_or_not_whatever_is_around_it() {
        for around in [b'a', b' ', b'!', b'#', b'[', b']', 0x7F, 0x80, 0xA2, 0xFF] {
            for byte in 0..=u8::MAX {
                for at in 0..50 {
                    let mut bytes = [around; 50];
                    bytes[at] = byte;
                    let unescaped = if is_escape(byte) { at } else { 50 };
                    assert_eq!(unescaped_run(&bytes), unescaped, "{around} {byte} {at}");
                    if around.is_ascii() {
                        let plain = if byte > 0x7F { at } else { unescaped };
                        assert_eq!(plain_run(&bytes), plain, "{around} {byte} {at}");
                    }
                }
            }
        }
    }
}

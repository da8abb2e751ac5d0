//! CRC-32 as in ISO 3309: the polynomial 0x04c11db7, reflected, as Ethernet and gzip have it.

/// The remainders of all bytes.
const REMAINDERS: [u32; 256] = remainders();

const fn remainders() -> [u32; 256] {
    let mut remainders = [0; 256];
    let mut byte = 0;
    while byte < 256_u32 {
        let mut rest = byte;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 };
            bit += 1;
        }
        remainders[byte as usize] = rest;
        byte += 1;
    }
    remainders
}

/// The checksum of bytes that arrive in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc32(u32);

impl Default for Crc32 {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Crc32 {
    /// Adds further bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |crc, byte| {
            let [low, ..] = crc.to_le_bytes();
            crc >> 8 ^ REMAINDERS[usize::from(low ^ byte)]
        });
    }

    /// The checksum of all bytes so far.
    pub(crate) const fn value(self) -> u32 {
        !self.0
    }
}

/// The checksum of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc32::default();
    crc.add(bytes);
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        let cases = [
            (&b""[..], 0),
            (b"123456789", 0xcbf4_3926),
            (b"The quick brown fox jumps over the lazy dog", 0x414f_a339),
        ];
        for (bytes, crc) in cases {
            assert_eq!(crc32(bytes), crc);
        }
    }
}

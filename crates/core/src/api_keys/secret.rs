//! New keys, from random numbers of the system.

use std::fmt;

use aws_lc_rs::rand;

use super::form::{DIGITS, KeyForm, RANDOM_CHARS};
use super::{KeyDigest, KeyId};

/// A new key. It is not printed.
pub struct NewKey {
    /// Its id.
    pub id: KeyId,
    /// Its text, which only its owner may know.
    pub text: String,
    /// What is kept of the text.
    pub digest: KeyDigest,
}

impl NewKey {
    /// A new key of this form with a new id.
    pub fn generate(form: &KeyForm) -> Self {
        Self::with_id(form, KeyId::from_bits(u64::from_le_bytes(random())))
    }

    /// A new secret for the key with this id.
    pub fn with_id(form: &KeyForm, id: KeyId) -> Self {
        let text = form.text(id, &digits(random()));
        Self { id, digest: KeyDigest::of(text.as_bytes()), text }
    }
}

/// Does not print the text.
impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewKey({}, ..)", self.id)
    }
}

/// Random bytes of the system.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// A number of 256 bits in base 62. 62^43 is more than 2^256.
fn digits(number: [u8; 32]) -> [u8; RANDOM_CHARS] {
    let mut number = number.map(u32::from);
    let mut digits = [0; RANDOM_CHARS];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0;
        for byte in &mut number {
            let dividend = rest << 8 | *byte;
            *byte = dividend / 62;
            rest = dividend % 62;
        }
        *digit = DIGITS[rest as usize];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_number_is_in_its_digits() {
        let text = |number| String::from_utf8(digits(number).to_vec()).unwrap();
        assert_eq!(text([0; 32]), "0".repeat(43));
        let mut number = [0; 32];
        number[31] = 61;
        assert_eq!(text(number), format!("{}z", "0".repeat(42)));
        number[30] = 1; // 317 = 5 * 62 + 7
        assert_eq!(text(number), format!("{}57", "0".repeat(41)));
        // 2^256 - 1 in base 62, computed by another program.
        assert_eq!(text([255; 32]), LARGEST);
    }

    const LARGEST: &str = "yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1";
}

//! The user and the password in a request.

use std::fmt;

/// The longest password in bytes. bcrypt ignores what follows.
pub const MAX_PASSWORD: usize = 72;

/// The bits of one character of base64.
const BITS: u32 = 6;

/// The user and the password in a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name of the user.
    pub user: Box<str>,
    /// The password.
    pub password: Box<str>,
}

impl Login {
    /// Reads the credentials of the scheme `Basic` (RFC 7617, section 2): a name, a colon and a
    /// password in UTF-8, encoded in base64 (RFC 4648, section 4). None if they have another form,
    /// control characters or a password that is too long. Then no user has them.
    pub fn parse(credentials: &[u8]) -> Option<Self> {
        let text = String::from_utf8(decoded(credentials)?).ok()?;
        let (user, password) = text.split_once(':')?;
        let is_usual = !text.chars().any(char::is_control) && password.len() <= MAX_PASSWORD;
        is_usual.then(|| Self { user: user.into(), password: password.into() })
    }
}

/// Does not print the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(..)")
    }
}

/// The bytes of a text in base64, if it has its one usual form: with padding, and without unused
/// bits. Another form would be another text for some backends.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() % 4 != 0 {
        return None;
    }
    let digits = match text {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] => digits,
        digits => digits,
    };
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let mut held: u32 = 0;
    let mut held_bits = 0;
    for digit in digits {
        held = held << BITS | u32::from(value(*digit)?);
        held_bits += BITS;
        if held_bits >= u8::BITS {
            held_bits -= u8::BITS;
            bytes.push(u8::try_from(held >> held_bits).ok()?);
            held &= (1 << held_bits) - 1;
        }
    }
    // One character alone is less than a byte.
    (held == 0 && held_bits < BITS).then_some(bytes)
}

const fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

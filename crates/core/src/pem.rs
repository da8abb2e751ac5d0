//! PEM texts (RFC 7468): the one place where certificates and keys are read.
//!
//! Readers of PEM usually skip what they do not understand, and a file then has one certificate
//! less than its author believes. Here every line that could be meant as the boundary of a message
//! must be one, and every message must have a known label. Between the messages there may be any
//! other text in any encoding (section 2 of the RFC), as `openssl x509 -text` writes it. Boundaries
//! that `cat` has joined in one line, because a file has no newline at its end, are understood.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The labels of certificates. The last two are old names of the first (RFC 7468, section 5.1).
const CERTIFICATES: [&str; 3] = ["CERTIFICATE", "X509 CERTIFICATE", "X.509 CERTIFICATE"];
/// The label of a private key that needs a passphrase (RFC 7468, section 11).
const ENCRYPTED_KEY: &str = "ENCRYPTED PRIVATE KEY";
/// The labels of public keys: RFC 7468, section 13, and PKCS #1.
const PUBLIC_KEYS: [&str; 2] = ["PUBLIC KEY", "RSA PUBLIC KEY"];
/// What files of certificates and keys contain beside them, and what is not used.
const OTHERS: [&str; 5] = [
    "DH PARAMETERS",
    "EC PARAMETERS",
    "CERTIFICATE REQUEST",
    "NEW CERTIFICATE REQUEST",
    "X509 CRL",
];
/// What editors of Windows write before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// The most characters of a label that messages show.
const MAX_SHOWN: usize = 40;

/// Why a PEM text cannot be used. The texts complete a sentence about the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// There is no certificate.
    #[error("there is no certificate in it{}", instead(.0.as_deref()))]
    NoCertificate(Option<String>),
    /// There is no private key.
    #[error("there is no private key in it{}", instead(.0.as_deref()))]
    NoPrivateKey(Option<String>),
    /// There is no public key.
    #[error("there is no public key in it{}", instead(.0.as_deref()))]
    NoPublicKey(Option<String>),
    /// The private key needs a passphrase.
    #[error("the private key in it is encrypted with a passphrase")]
    Encrypted,
    /// ASN.1 instead of text.
    #[error("it is in DER, which is not a text; PEM is needed")]
    Der,
    /// An archive of PKCS #12 instead of text.
    #[error("it is a PKCS #12 archive; PEM is needed")]
    Pkcs12,
    /// UTF-16, which some editors and shells of Windows write.
    #[error("it is UTF-16 text, and PEM is ASCII")]
    Utf16,
    /// A line that looks like a boundary and is none.
    #[error("its line {0} is neither the boundary of a PEM message nor other text")]
    Boundary(usize),
    /// A message without an end.
    #[error("the PEM message that begins in its line {0} has no end")]
    Unended(usize),
    /// An end without a beginning.
    #[error("its line {0} ends a PEM message that has not begun")]
    Unbegun(usize),
    /// A message of a kind that is not known here.
    #[error("its line {0} begins a \"{1}\", which cannot be used here")]
    Label(usize, String),
    /// A message whose body is not base64.
    #[error("the PEM message that begins in its line {0} is damaged: it is not base64")]
    Base64(usize),
}

impl PemError {
    /// What to do about it. Empty if the error says everything.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Encrypted => {
                "the gateway cannot ask for a passphrase: openssl pkey -in key.pem -out plain.pem, \
                 and let only the gateway read it"
            }
            Self::Der => "convert it: openssl x509 -inform DER (of a key: openssl pkey)",
            Self::Pkcs12 => "convert it: openssl pkcs12 -in file.p12 -nodes -out file.pem",
            Self::Utf16 => "save it as ASCII or UTF-8",
            Self::Boundary(_) => {
                "like -----BEGIN CERTIFICATE-----, alone in its line, with five signs at both ends"
            }
            Self::Label(..) => "convert it with openssl x509 or openssl pkey",
            _ => "",
        }
    }
}

/// What a file has instead of what was wanted.
fn instead(label: Option<&str>) -> String {
    label.map_or_else(String::new, |label| format!(", but a \"{label}\""))
}

/// The forms of private keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Keys of all algorithms (RFC 5958).
    Pkcs8,
    /// RSA keys (RFC 8017).
    Pkcs1,
    /// Keys of elliptic curves (RFC 5915).
    Sec1,
}

impl KeyForm {
    fn of(label: &str) -> Option<Self> {
        match label {
            "PRIVATE KEY" => Some(Self::Pkcs8),
            "RSA PRIVATE KEY" => Some(Self::Pkcs1),
            "EC PRIVATE KEY" => Some(Self::Sec1),
            _ => None,
        }
    }
}

/// A message: a label and the lines between its boundaries.
struct Message<'t> {
    label: String,
    /// The number of its first line, beginning with 1.
    line: usize,
    body: Vec<&'t [u8]>,
}

/// All certificates in a text, in DER. There is at least one.
///
/// # Errors
/// If there is none, or a part of the text is not understood.
pub fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, PemError> {
    let messages = messages(text)?;
    let found = messages.iter().filter(|it| CERTIFICATES.contains(&&*it.label));
    let found: Vec<Vec<u8>> = found.map(Message::der).collect::<Result<_, _>>()?;
    match found.is_empty() {
        true => Err(PemError::NoCertificate(first_label(&messages))),
        false => Ok(found),
    }
}

/// The first private key in a text, in DER.
///
/// # Errors
/// If there is none, it is encrypted, or a part of the text is not understood.
pub fn private_key(text: &[u8]) -> Result<(KeyForm, Vec<u8>), PemError> {
    let messages = messages(text)?;
    for message in &messages {
        if message.is_encrypted() {
            return Err(PemError::Encrypted);
        }
        if let Some(form) = KeyForm::of(&message.label) {
            return Ok((form, message.der()?));
        }
    }
    Err(PemError::NoPrivateKey(first_label(&messages)))
}

/// The first public key in a text, as a text with nothing else in it.
///
/// # Errors
/// If there is none, or a part of the text is not understood.
pub(crate) fn public_key(text: &[u8]) -> Result<String, PemError> {
    let messages = messages(text)?;
    match messages.iter().find(|it| PUBLIC_KEYS.contains(&&*it.label)) {
        Some(key) => {
            let label = &key.label;
            let body = STANDARD.encode(key.der()?);
            Ok(format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"))
        }
        None => Err(PemError::NoPublicKey(first_label(&messages))),
    }
}

fn first_label(messages: &[Message<'_>]) -> Option<String> {
    messages.first().map(|it| it.label.clone())
}

impl Message<'_> {
    fn der(&self) -> Result<Vec<u8>, PemError> {
        let digits = self.body.concat();
        let digits: Vec<u8> = digits.into_iter().filter(|it| !it.is_ascii_whitespace()).collect();
        STANDARD.decode(digits).map_err(|_| PemError::Base64(self.line))
    }

    /// Whether it is a private key that needs a passphrase, in one of two forms. The older form
    /// has fields before the key (RFC 1421).
    fn is_encrypted(&self) -> bool {
        let is_old = |line: &&[u8]| line.starts_with(b"Proc-Type:") && line.ends_with(b"ENCRYPTED");
        self.label == ENCRYPTED_KEY || self.body.iter().any(is_old)
    }

    fn is_known(&self) -> bool {
        let label = &*self.label;
        KeyForm::of(label).is_some()
            || label == ENCRYPTED_KEY
            || [&CERTIFICATES[..], &PUBLIC_KEYS, &OTHERS].concat().contains(&label)
    }
}

/// All messages of a text.
fn messages(text: &[u8]) -> Result<Vec<Message<'_>>, PemError> {
    check_encoding(text)?;
    let mut found = Vec::new();
    let mut open: Option<Message<'_>> = None;
    let newline = if text.contains(&b'\n') { b'\n' } else { b'\r' };
    for (number, line) in text.split(|&byte| byte == newline).enumerate() {
        // `cat` puts the byte order mark of a file into the middle of a text.
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let number = number + 1;
        let line = line.trim_ascii();
        let boundaries = boundaries(line).map_err(|NoBoundary| PemError::Boundary(number))?;
        if let (true, Some(message)) = (boundaries.is_empty(), &mut open) {
            message.body.push(line);
        }
        for boundary in boundaries {
            match (boundary, open.take()) {
                (Boundary::Begin(label), None) => {
                    let label = label.to_owned();
                    open = Some(Message { label, line: number, body: Vec::new() });
                }
                (Boundary::End(label), Some(message)) if message.label == label => {
                    if !message.is_known() {
                        let label = message.label.chars().take(MAX_SHOWN).collect();
                        return Err(PemError::Label(message.line, label));
                    }
                    found.push(message);
                }
                (_, Some(message)) => return Err(PemError::Unended(message.line)),
                (Boundary::End(_), None) => return Err(PemError::Unbegun(number)),
            }
        }
    }
    match open {
        Some(message) => Err(PemError::Unended(message.line)),
        None => Ok(found),
    }
}

/// Finds what is not a text of ASCII at all.
fn check_encoding(text: &[u8]) -> Result<(), PemError> {
    match text {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(PemError::Utf16),
        // A sequence that begins with the number 3 (RFC 7292, section 4).
        [0x30, 0x80, 2, 1, 3, ..]
        | [0x30, 0x81, _, 2, 1, 3, ..]
        | [0x30, 0x82, _, _, 2, 1, 3, ..] => Err(PemError::Pkcs12),
        // A sequence of more than 127 bytes, or a short one.
        [0x30, 0x80..=0x84, ..] => Err(PemError::Der),
        [0x30, length, rest @ ..] if rest.len() == usize::from(*length) => Err(PemError::Der),
        _ => Ok(()),
    }
}

/// The first or the last line of a message.
enum Boundary<'t> {
    Begin(&'t str),
    End(&'t str),
}

/// A line that was most likely meant as a boundary.
struct NoBoundary;

/// The boundaries in a line: none, one, or several that are joined.
fn boundaries(line: &[u8]) -> Result<Vec<Boundary<'_>>, NoBoundary> {
    let mut found = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let Some((boundary, after)) = boundary(rest) else {
            return if found.is_empty() && !resembles_boundary(line) {
                Ok(found)
            } else {
                Err(NoBoundary)
            };
        };
        found.push(boundary);
        rest = after.trim_ascii_start();
    }
    Ok(found)
}

/// The boundary at the start of a line, and the rest of the line.
fn boundary(line: &[u8]) -> Option<(Boundary<'_>, &[u8])> {
    let inner = line.strip_prefix(b"-----")?;
    let end = inner.windows(5).position(|it| it == b"-----")?;
    let rest = &inner[end + 5..];
    let inner = std::str::from_utf8(&inner[..end]).ok()?;
    let is_label = |label: &&str| {
        let is_sign = |byte| matches!(byte, b' ' | b'.' | b'0'..=b'9' | b'A'..=b'Z');
        !label.is_empty() && label.trim() == *label && label.bytes().all(is_sign)
    };
    let begin = inner.strip_prefix("BEGIN ").filter(is_label).map(Boundary::Begin);
    let end = || inner.strip_prefix("END ").filter(is_label).map(Boundary::End);
    Some((begin.or_else(end)?, rest))
}

/// Whether a line that is not a boundary was most likely meant as one: `BEGIN` or `END` with the
/// word of a label behind it, and dashes beside them. Word processors write other dashes than
/// ASCII has.
fn resembles_boundary(line: &[u8]) -> bool {
    let is_dash = |byte: Option<&u8>| byte.is_some_and(|byte| *byte == b'-' || !byte.is_ascii());
    [&b"BEGIN "[..], b"END "].into_iter().any(|word| {
        let places = line.windows(word.len()).enumerate().filter(|(_, it)| *it == word);
        places.into_iter().any(|(at, _)| {
            let before = line[..at].trim_ascii_end();
            let after = &line[at + word.len()..];
            let is_sign = |byte: &u8| matches!(byte, b' ' | b'.' | b'0'..=b'9' | b'A'..=b'Z');
            let (label, after) =
                after.split_at(after.iter().position(|it| !is_sign(it)).unwrap_or(after.len()));
            let label = label.trim_ascii();
            let names_one = [&b"CERTIFICATE"[..], b"KEY"].iter().any(|it| label.ends_with(it));
            before.ends_with(b"-----")
                || names_one && (is_dash(before.last()) || is_dash(after.first()))
        })
    })
}

#[cfg(test)]
mod tests;

//! Checks the head of an HTTP/1 request as bytes, before the HTTP library parses it.
//!
//! Guarantees: every parser that follows RFC 9112 reads an accepted head in the same way,
//! its body has one framing, and its length is known. The check reads each byte once, and
//! the result does not depend on the pieces in which the head arrives.
//!
//! The Host field is not checked here. The rules check it for requests of every version.

#[cfg(test)]
mod tests;

use memchr::memchr;
use tollgate_core::request::{Malformed, is_disguised, is_method, plain_len, scan, target_len};

use crate::message::content_length;
use crate::server::settings::HeadBounds;

/// A valid head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its length in bytes, including the empty line.
    pub len: usize,
    /// How its body ends.
    pub framing: Framing,
    /// Whether the response may change the protocol.
    pub asks_upgrade: bool,
}

/// How the end of a body is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The number of bytes; 0: there is no body.
    Length(u64),
    /// By the last chunk.
    Chunked,
}

/// The state of the check of one head.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadReader {
    /// The start of the head, after empty lines.
    start: usize,
    /// The start of the current line.
    line: usize,
    /// The bytes before this do not end the current line.
    searched: usize,
    /// None before the request line was read.
    version: Option<Version>,
    fields: usize,
    length: Option<u64>,
    is_chunked: bool,
    asks_upgrade: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

impl HeadReader {
    /// Checks the head at the start of `bytes`. Returns None if it is incomplete; call this
    /// again with the same bytes and more.
    ///
    /// # Errors
    /// If the head is malformed, which may be known before its end has arrived.
    pub fn read(&mut self, bytes: &[u8], bounds: &HeadBounds) -> Result<Option<Head>, Malformed> {
        loop {
            if self.version.is_none() {
                // A client that uses TLS or another protocol may wait for a response
                // before it sends the end of a line.
                let opening = bytes.get(self.line);
                if opening.is_some_and(|&byte| !is(TOKEN | ODD | LINE_END, byte)) {
                    return Err(Malformed::BadMethod);
                }
            }
            let end = memchr(b'\n', &bytes[self.searched..]).map(|at| self.searched + at);
            if end.unwrap_or(bytes.len()) - self.start >= bounds.bytes {
                return Err(self.excess());
            }
            let Some(end) = end else {
                self.searched = bytes.len();
                return Ok(None);
            };
            let line = &bytes[self.line..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.line = end + 1;
            self.searched = self.line;
            match self.version {
                // Some clients send an extra empty line after a body (RFC 9112, section 2.2).
                None if line.is_empty() => self.start = self.line,
                None => self.request_line(line, bounds)?,
                Some(_) if line.is_empty() => return Ok(Some(self.head())),
                Some(version) => self.field(line, version, bounds)?,
            }
        }
    }

    /// The start of the current line, if all lines before it were empty.
    pub fn skippable(&self) -> Option<usize> {
        self.version.is_none().then_some(self.line)
    }

    /// The error for a head that is too large. In a request line only the target can be.
    fn excess(&self) -> Malformed {
        if self.version.is_none() { Malformed::TargetTooLong } else { Malformed::HeadTooLarge }
    }

    fn head(&self) -> Head {
        let framing = match self.length {
            _ if self.is_chunked => Framing::Chunked,
            length => Framing::Length(length.unwrap_or(0)),
        };
        Head { len: self.line, framing, asks_upgrade: self.asks_upgrade }
    }

    /// RFC 9112, section 3.
    fn request_line(&mut self, line: &[u8], bounds: &HeadBounds) -> Result<(), Malformed> {
        let or_bare_cr = |fault| if line.contains(&b'\r') { Malformed::BareCr } else { fault };
        let (method, rest) = split(line, TOKEN | ODD);
        let Some(rest) = rest.strip_prefix(b" ").filter(|_| !method.is_empty()) else {
            return Err(or_bare_cr(Malformed::BadMethod));
        };
        if !is_method(method) {
            return Err(Malformed::BadMethod);
        }
        let (target, version) = rest.split_at(target_len(rest));
        if target.len() > bounds.target_bytes {
            return Err(Malformed::TargetTooLong);
        }
        let Some(version) = version.strip_prefix(b" ").filter(|_| !target.is_empty()) else {
            let is_cut = version.is_empty() || target.is_empty();
            let fault = if is_cut { Malformed::BadRequestLine } else { Malformed::BadTarget };
            return Err(or_bare_cr(fault));
        };
        self.version = Some(match version {
            b"HTTP/1.1" => Version::Http11,
            b"HTTP/1.0" => Version::Http10,
            _ if is_other_version(version) => return Err(Malformed::BadVersion),
            _ => return Err(or_bare_cr(Malformed::BadRequestLine)),
        });
        check_target(target)?;
        self.asks_upgrade = method == b"CONNECT";
        Ok(())
    }

    /// RFC 9112, section 5.
    fn field(
        &mut self,
        line: &[u8],
        version: Version,
        bounds: &HeadBounds,
    ) -> Result<(), Malformed> {
        self.fields += 1;
        if self.fields > bounds.fields {
            return Err(Malformed::TooManyFields);
        }
        let (name, value) = field_parts(line, bounds)?;
        if !is_field_value(value) {
            let has_cr = value.contains(&b'\r');
            return Err(if has_cr { Malformed::BareCr } else { Malformed::ControlCharacter });
        }
        match name.len() {
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.asks_upgrade |= version == Version::Http11;
                Ok(())
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.transfer_encoding(value, version)
            }
            _ => Ok(()),
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        if self.is_chunked {
            return Err(Malformed::TwoFramings);
        }
        let length = content_length(value.trim_ascii()).ok_or(Malformed::BadLength)?;
        match self.length.replace(length) {
            None => Ok(()),
            Some(_) => Err(Malformed::ManyLengths),
        }
    }

    fn transfer_encoding(&mut self, value: &[u8], version: Version) -> Result<(), Malformed> {
        if version == Version::Http10 {
            return Err(Malformed::CodingInOldVersion);
        }
        if self.length.is_some() {
            return Err(Malformed::TwoFramings);
        }
        if self.is_chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Err(Malformed::BadCoding);
        }
        self.is_chunked = true;
        Ok(())
    }
}

/// The name and the value of a field. The value includes the blanks around it.
fn field_parts<'l>(line: &'l [u8], bounds: &HeadBounds) -> Result<(&'l [u8], &'l [u8]), Malformed> {
    let (mut name, mut rest) = line.split_at(plain_len(line));
    if rest.first().is_some_and(|&byte| is(ODD, byte)) {
        (name, rest) = split(line, TOKEN | ODD);
        if !bounds.disguised_names && is_disguised(name) {
            return Err(Malformed::DisguisedName);
        }
    }
    match rest {
        [b':', value @ ..] if !name.is_empty() => Ok((name, value)),
        [b' ' | b'\t', ..] if name.is_empty() => Err(Malformed::Folded),
        [b' ' | b'\t', ..] => Err(Malformed::BlankInName),
        [b'\r', ..] => Err(Malformed::BareCr),
        _ => Err(Malformed::BadField),
    }
}

/// `HTTP/` and two digits with a dot between them (RFC 9112, section 2.3).
fn is_other_version(version: &[u8]) -> bool {
    matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// Checks of a target what the classes of single bytes do not show.
fn check_target(target: &[u8]) -> Result<(), Malformed> {
    let is_ascii = target.is_ascii();
    if !is_ascii && std::str::from_utf8(target).is_err() {
        return Err(Malformed::BadTarget);
    }
    // The rare forms are checked with the parser of the library, which reads them later.
    let is_path = target[0] == b'/';
    if is_path || http::Uri::try_from(target).is_ok() { Ok(()) } else { Err(Malformed::BadTarget) }
}

/// RFC 9110, section 5.5.
pub fn is_field_value(value: &[u8]) -> bool {
    scan::all(value, |byte| (byte >= b' ') & (byte != 0x7f) | (byte == b'\t'))
}

/// Splits `bytes` before the first that is in none of `classes`.
fn split(bytes: &[u8], classes: u8) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| !is(classes, byte)).unwrap_or(bytes.len());
    bytes.split_at(end)
}

/// Whether `byte` is in one of `classes`.
pub fn is(classes: u8, byte: u8) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

/// In a token (RFC 9110, section 5.6.2): letters, digits and `-`.
pub const TOKEN: u8 = 1;
/// In a token too, but in few names; such names are checked again.
pub const ODD: u8 = 2;
/// CR and LF.
const LINE_END: u8 = 4;

/// The classes of each byte.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte: u8 = 0;
    loop {
        classes[byte as usize] = match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' => TOKEN,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'.' | b'^' | b'_' | b'`'
            | b'|' | b'~' => ODD,
            b'\r' | b'\n' => LINE_END,
            _ => 0,
        };
        if byte == u8::MAX {
            break classes;
        }
        byte += 1;
    }
};

//! The head of a request of HTTP/1, judged as bytes, before a library makes
//! something of it.
//!
//! What it guarantees: a head that passes has one meaning for every reader of
//! RFC 9112, its body has one framing, and its length is known. Judging takes
//! one pass whatever the pieces are in which a head comes, and the pieces make
//! no difference to the verdict.
//!
//! Whether Host is there, is one and names a host is not asked here: it is asked
//! of requests of every version, where the rules first see them.

#[cfg(test)]
mod tests;

use memchr::memchr;

use crate::request::{Malformed, is_disguised};

/// What the head of a request may be at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadBounds {
    /// Bytes from the first of the request line to the last of the empty line.
    pub(super) bytes: usize,
    /// Bytes of the request's target.
    pub(super) target_bytes: usize,
    /// Number of fields.
    pub(super) fields: usize,
}

/// A head that may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Its length in bytes, with its empty line.
    pub(super) len: usize,
    /// How its body ends.
    pub(super) framing: Framing,
    /// Whether what follows may be of another protocol, if the answer says so.
    pub(super) asks_upgrade: bool,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes; after none there is no body.
    Length(u64),
    /// By the last chunk.
    Chunked,
}

/// The reading of one head: what has been seen of it so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeadReader {
    /// Where the head begins: behind empty lines.
    start: usize,
    /// Where the line begins that is being read.
    line: usize,
    /// Up to where that line is known not to end.
    searched: usize,
    /// None before the request line.
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
    /// Judges the head at the start of `bytes`; nothing if it goes on. Then it is
    /// to be called again with the same bytes and more.
    ///
    /// # Errors
    /// If it is a head that may not pass, which may show before its end has come.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        bounds: &HeadBounds,
    ) -> Result<Option<Head>, Malformed> {
        loop {
            if self.version.is_none() {
                // Whoever speaks TLS or nothing known may wait for an answer
                // before there is an end of a line.
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
                // RFC 9112, section 2.2: some clients end a body with an empty line too many.
                None if line.is_empty() => self.start = self.line,
                None => self.request_line(line, bounds)?,
                Some(_) if line.is_empty() => return Ok(Some(self.whole())),
                Some(version) => self.field(line, version, bounds)?,
            }
        }
    }

    /// Where the line begins that has not ended yet, if all before it was empty.
    pub(super) fn skippable(&self) -> Option<usize> {
        self.version.is_none().then_some(self.line)
    }

    /// What is too large: of a request line only the target can be.
    fn excess(&self) -> Malformed {
        if self.version.is_none() { Malformed::TargetTooLong } else { Malformed::HeadTooLarge }
    }

    fn whole(&self) -> Head {
        let framing = match self.length {
            _ if self.is_chunked => Framing::Chunked,
            length => Framing::Length(length.unwrap_or(0)),
        };
        Head { len: self.line, framing, asks_upgrade: self.asks_upgrade }
    }

    /// RFC 9112, section 3.
    fn request_line(&mut self, line: &[u8], bounds: &HeadBounds) -> Result<(), Malformed> {
        let spoilt = |fault| if line.contains(&b'\r') { Malformed::BareCr } else { fault };
        let (method, rest) = split(line, TOKEN | ODD);
        let Some(rest) = rest.strip_prefix(b" ").filter(|_| !method.is_empty()) else {
            return Err(spoilt(Malformed::BadMethod));
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
            return Err(spoilt(fault));
        };
        self.version = Some(match version {
            b"HTTP/1.1" => Version::Http11,
            b"HTTP/1.0" => Version::Http10,
            _ if is_other_version(version) => return Err(Malformed::BadVersion),
            _ => return Err(spoilt(Malformed::BadRequestLine)),
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
        let (name, value) = field_parts(line)?;
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
        let length = length_of(value.trim_ascii()).ok_or(Malformed::BadLength)?;
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

/// The number that a Content-Length is: decimal digits, and no more than a reader
/// with signed numbers can count to.
pub(super) fn length_of(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(value).ok().filter(|_| is_number)?;
    number.parse::<u64>().ok().filter(|length| i64::try_from(*length).is_ok())
}

/// The name and the value of a field, with the blanks around the value.
fn field_parts(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut name, mut rest) = split(line, TOKEN);
    if rest.first().is_some_and(|&byte| is(ODD, byte)) {
        (name, rest) = split(line, TOKEN | ODD);
        if is_disguised(name) {
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

/// Methods are case-sensitive, but not for every backend: one that is written
/// like a common one in small letters could be taken for it. The method of the
/// guard's own requests is nobody else's.
pub(super) fn is_method(method: &[u8]) -> bool {
    const COMMON: [&[u8]; 9] =
        [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
    method != super::guard::REFUSED_METHOD.as_bytes()
        && (!method.iter().any(u8::is_ascii_lowercase)
            || !COMMON.iter().any(|common| common.eq_ignore_ascii_case(method)))
}

/// `HTTP/` and two digits with a dot between (RFC 9112, section 2.3).
fn is_other_version(version: &[u8]) -> bool {
    matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// Up to where `rest` can be a target.
fn target_len(rest: &[u8]) -> usize {
    let path = split(rest, PATH).0.len();
    match rest.get(path) {
        Some(b'?') => path + 1 + split(&rest[path + 1..], QUERY).0.len(),
        _ => path,
    }
}

/// What the classes of single bytes do not tell of a target.
fn check_target(target: &[u8]) -> Result<(), Malformed> {
    let is_ascii = target.is_ascii();
    if !is_ascii && std::str::from_utf8(target).is_err() {
        return Err(Malformed::BadTarget);
    }
    // In the forms that are rare the library is asked, whose part it will be.
    let is_path = target[0] == b'/';
    if is_path || http::Uri::try_from(target).is_ok() { Ok(()) } else { Err(Malformed::BadTarget) }
}

/// RFC 9110, section 5.5. Without an early end, so that many bytes are looked at
/// in one step.
pub(super) fn is_field_value(value: &[u8]) -> bool {
    !value.iter().fold(false, |bad, &byte| bad | (byte < b' ' && byte != b'\t') | (byte == 0x7f))
}

/// `bytes` up to the first that is in none of `classes`, and the rest.
fn split(bytes: &[u8], classes: u8) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| !is(classes, byte)).unwrap_or(bytes.len());
    bytes.split_at(end)
}

/// Whether `byte` is in one of `classes`.
pub(super) fn is(classes: u8, byte: u8) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

/// Of a token (RFC 9110, section 5.6.2): letters, digits and `-`.
pub(super) const TOKEN: u8 = 1;
/// Of a token too, but in few names, which are looked at twice.
pub(super) const ODD: u8 = 2;
/// Of a target up to its `?`.
const PATH: u8 = 4;
/// Of a target behind its `?`.
const QUERY: u8 = 8;
/// CR and LF.
const LINE_END: u8 = 16;

/// The classes of each byte. A target may have what the HTTP library takes: more
/// than RFC 3986 allows, because browsers send it, but no `#`.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte: u8 = 0;
    loop {
        classes[byte as usize] = match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' => TOKEN | PATH | QUERY,
            b'!' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'.' | b'|' | b'~' | b'^' | b'_' => {
                ODD | PATH | QUERY
            }
            b'`' => ODD | QUERY,
            b'#' => ODD,
            b'"' => PATH,
            b'('
            | b')'
            | b','
            | b'/'
            | b':'
            | b';'
            | b'='
            | b'@'
            | b'['
            | b'\\'
            | b']'
            | b'{'
            | b'}'
            | 0x80.. => PATH | QUERY,
            b'?' => QUERY,
            b'\r' | b'\n' => LINE_END,
            _ => 0,
        };
        if byte == u8::MAX {
            break classes;
        }
        byte += 1;
    }
};

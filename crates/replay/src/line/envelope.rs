//! What container runtimes, syslog and tools write around the lines of a program.
//!
//! Pure, as the formats are. A log has the same envelopes in all lines, so they are recognised
//! once, and one line at a time is opened.

use std::borrow::Cow;

use memchr::{memchr, memmem};
use smallvec::SmallVec;

use super::json::{self, Value};
use super::text::{Cursor, number};
use super::time;

/// Docker splits lines that are longer. The parts before the last one have no line end.
const DOCKER_PART_BYTES: usize = 16 * 1024;
/// A name of a container in front of a line is at most this long.
const MAX_NAME_BYTES: usize = 128;

/// One kind of envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// `{"log":"LINE\n","stream":"stdout","time":"..."}`: Docker's logging driver `json-file`.
    Docker,
    /// `NAME-1  | LINE`: `docker compose logs`.
    Compose,
    /// `TIME stdout F LINE`: the Container Runtime Interface of Kubernetes.
    Cri,
    /// `[pod/NAME/CONTAINER] LINE`: `kubectl logs --prefix`.
    Kubectl,
    /// `<PRI>TIME HOST TAG: LINE` (RFC 3164), also without the priority and with a time of
    /// RFC 3339, as rsyslog and journalctl write it; `<PRI>1 TIME HOST APP PID ID DATA LINE`
    /// (RFC 5424).
    Syslog,
    /// `TIME LINE`: `docker logs --timestamps`, `kubectl logs --timestamps`.
    Timestamp,
}

/// The line inside an envelope.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content<'l> {
    /// The line, without its end.
    pub(crate) text: Cow<'l, [u8]>,
    /// Whether the line goes on in the next envelope.
    pub(crate) is_part: bool,
}

/// The envelopes of a log, the outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Envelopes(SmallVec<[Envelope; 2]>);

impl Envelope {
    /// All kinds. Of several that open the same lines, the first one is taken.
    pub(crate) const ALL: [Self; 6] =
        [Self::Docker, Self::Compose, Self::Cri, Self::Kubectl, Self::Syslog, Self::Timestamp];

    /// Its word in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Compose => "compose",
            Self::Cri => "cri",
            Self::Kubectl => "kubectl",
            Self::Syslog => "syslog",
            Self::Timestamp => "timestamps",
        }
    }

    /// The line inside. None: the line is not in this envelope.
    pub(crate) fn open(self, line: &[u8]) -> Option<Content<'_>> {
        let whole = |text| Content { text: Cow::Borrowed(text), is_part: false };
        match self {
            Self::Docker => docker(line),
            Self::Compose => compose(line).map(whole),
            Self::Cri => cri(line),
            Self::Kubectl => kubectl(line).map(whole),
            Self::Syslog => syslog(line).map(whole),
            Self::Timestamp => timestamp(line).map(whole),
        }
    }
}

impl Envelopes {
    /// The envelopes, the outermost first.
    pub(crate) fn of(envelopes: &[Envelope]) -> Self {
        Self(envelopes.into())
    }

    /// The words for all envelopes.
    pub(crate) fn all_names() -> String {
        Envelope::ALL.map(Envelope::name).join(", ")
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their words. None: there are none.
    pub(crate) fn names(&self) -> Option<String> {
        let names: Vec<&str> = self.0.iter().rev().map(|envelope| envelope.name()).collect();
        (!names.is_empty()).then(|| names.join(" in "))
    }

    /// The line inside all of them. None: the line is not in these envelopes.
    pub(crate) fn open<'l>(&self, line: &'l [u8]) -> Option<Content<'l>> {
        let mut content = Content { text: Cow::Borrowed(line), is_part: false };
        for envelope in &self.0 {
            let is_part = content.is_part;
            content = match content.text {
                Cow::Borrowed(text) => envelope.open(text)?,
                Cow::Owned(text) => {
                    let Content { text, is_part } = envelope.open(&text)?;
                    Content { text: Cow::Owned(text.into_owned()), is_part }
                }
            };
            content.is_part |= is_part;
        }
        Some(content)
    }
}

fn docker(line: &[u8]) -> Option<Content<'_>> {
    // Other JSON logs are not scanned twice.
    memmem::find(line, b"\"log\"")?;
    let mut log = None;
    json::scan(line, &mut |names, value| {
        if let ([b"log"], Value::Text(_)) = (names, value) {
            log = value.plain();
        }
    })?;
    let mut text = log?;
    let is_part = text.len() >= DOCKER_PART_BYTES && text.last() != Some(&b'\n');
    let end = text.trim_ascii_end().len();
    match &mut text {
        Cow::Borrowed(text) => *text = &text[..end],
        Cow::Owned(text) => text.truncate(end),
    }
    Some(Content { text, is_part })
}

fn compose(line: &[u8]) -> Option<&[u8]> {
    let start = &line[..line.len().min(MAX_NAME_BYTES)];
    let bar = memchr(b'|', start)?;
    // On a terminal, the name and the bar have a colour.
    let name = without_colour(&line[..bar]).trim_ascii_end();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    if name.is_empty() || !name.iter().all(is_name) {
        return None;
    }
    let rest = without_colour(&line[bar + 1..]).strip_prefix(b" ")?;
    Some(without_colour(rest))
}

/// A text without a sequence at its start that chooses a colour (ECMA-48, "Select Graphic
/// Rendition").
fn without_colour(text: &[u8]) -> &[u8] {
    let Some(sequence) = text.strip_prefix(b"\x1b[") else { return text };
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
    let end = sequence.iter().position(|byte| !is_parameter(byte)).unwrap_or(sequence.len());
    sequence[end..].strip_prefix(b"m").unwrap_or(text)
}

fn cri(line: &[u8]) -> Option<Content<'_>> {
    let mut cursor = Cursor::new(line);
    time::rfc3339(cursor.word()?)?;
    if !matches!(cursor.word()?, b"stdout" | b"stderr") {
        return None;
    }
    // Tags with colons between them; the first one is P for a part, and F for the last one.
    let is_part = match cursor.word()?.split(|byte| *byte == b':').next()? {
        b"F" => false,
        b"P" => true,
        _ => return None,
    };
    let rest = cursor.rest();
    Some(Content { text: Cow::Borrowed(rest.strip_prefix(b" ").unwrap_or(rest)), is_part })
}

fn kubectl(line: &[u8]) -> Option<&[u8]> {
    let end = memmem::find(line.strip_prefix(b"[pod/")?, b"] ")?;
    line.get(b"[pod/".len() + end + b"] ".len()..)
}

fn timestamp(line: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(line);
    time::rfc3339(cursor.word()?)?;
    Some(cursor.rest().trim_ascii_start())
}

fn syslog(line: &[u8]) -> Option<&[u8]> {
    let after_priority = line.strip_prefix(b"<").and_then(|rest| {
        let end = memchr(b'>', &rest[..rest.len().min(4)])?;
        number(&rest[..end]).map(|_| &rest[end + 1..])
    });
    if let Some(message) = after_priority.and_then(|rest| rest.strip_prefix(b"1 ")) {
        return rfc5424(message);
    }
    let message = after_priority.unwrap_or(line);
    let mut cursor = Cursor::new(after_time(message)?);
    let first = cursor.word()?;
    // Without the name of the machine, the tag comes at once.
    if !is_tag(first) && !is_tag(cursor.word()?) {
        return None;
    }
    Some(cursor.rest().trim_ascii_start())
}

fn is_tag(word: &[u8]) -> bool {
    word.len() > 1 && word.ends_with(b":")
}

/// What follows `Nov 21 07:28:46` or a time of RFC 3339.
fn after_time(message: &[u8]) -> Option<&[u8]> {
    if let Some((stamp, rest)) = message.split_at_checked(15)
        && is_bsd_time(stamp)
    {
        return Some(rest);
    }
    let mut cursor = Cursor::new(message);
    time::rfc3339(cursor.word()?)?;
    Some(cursor.rest())
}

/// `Mmm dd hh:mm:ss` (RFC 3164, section 4.1.2).
fn is_bsd_time(stamp: &[u8]) -> bool {
    let [m1, m2, m3, b' ', d1, d2, b' ', h1, h2, b':', n1, n2, b':', s1, s2] = stamp else {
        return false;
    };
    [m1, m2, m3].iter().all(|byte| byte.is_ascii_alphabetic())
        && (*d1 == b' ' || d1.is_ascii_digit())
        && [d2, h1, h2, n1, n2, s1, s2].iter().all(|byte| byte.is_ascii_digit())
}

/// The message of RFC 5424, section 6, after the version.
fn rfc5424(rest: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(rest);
    let stamp = cursor.word()?;
    if stamp != b"-" {
        time::rfc3339(stamp)?;
    }
    let _host = cursor.word()?;
    let _app = cursor.word()?;
    let _pid = cursor.word()?;
    let _id = cursor.word()?;
    if cursor.peek()? == b'[' {
        // Elements follow one another without a blank.
        while cursor.rest().first() == Some(&b'[') {
            element(&mut cursor)?;
        }
    } else if cursor.word()? != b"-" {
        return None;
    }
    let message = cursor.rest().trim_ascii_start();
    // Section 6.4: a message in UTF-8 may begin with a byte order mark.
    Some(message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message))
}

/// Passes `[ID NAME="VALUE" ...]`, in whose values a `]` has a backslash before it.
fn element(cursor: &mut Cursor<'_>) -> Option<()> {
    let mut is_escaped = false;
    let end = cursor.rest().iter().position(|byte| {
        let is_end = *byte == b']' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })?;
    *cursor = Cursor::new(&cursor.rest()[end + 1..]);
    Some(())
}

#[cfg(test)]
mod tests;

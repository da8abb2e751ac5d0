//! Path patterns: `/v1/orders`, `/v1/orders/{id}`, `/v1/*`, `/grpc.*`.
//!
//! A pattern is written in the form in which paths are compared (see
//! [`RequestView::path`](crate::request::RequestView)). A pattern that can never match,
//! because no path has such a form, is refused when it is parsed.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::request::{is_path_character, without_parameters};

/// The most segments of a pattern, so that a comparison takes a bounded time.
pub const MAX_SEGMENTS: usize = 64;

/// `/v1/orders`, `/v1/orders/{id}`, a tail: `/v1/*`, or a prefix: `/grpc.*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern {
    /// The texts between the slashes. The last one is empty if the path ends in a slash.
    pub segments: Vec<Segment>,
    /// Whether the pattern ends in `*`: any text may follow, including none, so `/v1/*`
    /// matches `/v1`, `/v1/` and `/v1/a/b`. The `*` may follow a [prefix](Segment::Prefix).
    pub tail: bool,
}

/// One segment of a path pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Exactly this segment.
    Literal(Box<str>),
    /// Any single segment that is not empty. Its value is a parameter with this name.
    Param(Box<str>),
    /// Any single segment that begins with this text, which is not empty. Only the last
    /// segment of a pattern with a tail can be a prefix: `/grpc.*` matches
    /// `/grpc.health.v1.Health/Check`.
    Prefix(Box<str>),
}

/// The errors of a text that is not a path pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathPatternError {
    /// `v1/orders`
    #[error("a path begins with a slash: `/{0}`")]
    NoSlash(String),
    /// `/a//b`
    #[error("a path has no empty segments: requests are compared with `//` merged to `/`")]
    EmptySegment,
    /// `/a/../b`
    #[error("requests with the segments `.` and `..` are refused, so this path never matches")]
    DotSegment,
    /// `/;a/b`, `/;a*`
    #[error(
        "`;` begins a parameter of a segment: requests with a segment that is nothing but \
         parameters are refused, unless it is the last one"
    )]
    Parameter,
    /// `/a*b`, `/*/b`
    #[error(
        "`*` stands for the whole rest of a path: it can only be the last character, as in \
         `/v1/*` or `/grpc.*`"
    )]
    Star,
    /// `/a?b`
    #[error("a path ends before `?` or `#`")]
    Query,
    /// `/a b`
    #[error("the character {0:?} never occurs in a path unescaped: write it percent-encoded")]
    Character(char),
    /// `/%4`
    #[error("`%` begins an escape of two hexadecimal digits, such as `%20`")]
    BadEscape,
    /// `/%7euser`, `/%2f`
    #[error("paths are compared in their normal form: write `{right}` instead of `{written}`")]
    Escape {
        /// The escape in the pattern.
        written: String,
        /// The text in a normal path.
        right: String,
    },
    /// `/a{b}`, `/{`
    #[error("a parameter is a whole segment, as in `/orders/{{id}}`, not `{0}`")]
    Braces(String),
    /// `/{}`, `/{a b}`
    #[error("a parameter's name is made of letters, digits and `_`, not `{0}`")]
    ParamName(String),
    /// `/{a}/{a}`
    #[error("the parameter `{0}` occurs twice in the path")]
    DuplicateParam(String),
    /// More than [`MAX_SEGMENTS`].
    #[error("a path may have at most {MAX_SEGMENTS} segments")]
    TooLong,
}

impl PathPattern {
    /// `path`, which the pattern matches, with the names of its parameters instead of
    /// their values. A value may be a key, and logs contain no keys.
    pub fn masked<'p>(&self, path: &'p str) -> Cow<'p, str> {
        if self.param_names().next().is_none() {
            return Cow::Borrowed(path);
        }
        let mut masked = String::with_capacity(path.len());
        let mut pattern = self.segments.iter().peekable();
        for (index, segment) in path.split('/').enumerate() {
            if index > 0 {
                masked.push('/');
            }
            // Paths are compared without empty segments.
            match pattern.next_if(|_| !segment.is_empty()) {
                Some(Segment::Param(name)) => masked.extend(["{", &**name, "}"]),
                _ => masked.push_str(segment),
            }
        }
        Cow::Owned(masked)
    }
}

impl FromStr for PathPattern {
    type Err = PathPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix('/').ok_or_else(|| PathPatternError::NoSlash(text.into()))?;
        let (rest, tail, is_prefix) = match rest.strip_suffix('*') {
            Some("") => return Ok(Self { segments: Vec::new(), tail: true }),
            Some(before) => match before.strip_suffix('/') {
                Some(whole) => (whole, true, false),
                None => (before, true, true),
            },
            None => (rest, false, false),
        };
        let mut pattern = Self { segments: Vec::new(), tail };
        let mut parts = rest.split('/').peekable();
        while let Some(part) = parts.next() {
            let is_final_slash = part.is_empty() && parts.peek().is_none() && !tail;
            if part.is_empty() && !is_final_slash {
                return Err(PathPatternError::EmptySegment);
            }
            if pattern.segments.len() == MAX_SEGMENTS {
                return Err(PathPatternError::TooLong);
            }
            let segment = if is_prefix && parts.peek().is_none() {
                Segment::Prefix(literal(part)?)
            } else {
                part.parse()?
            };
            let is_last = parts.peek().is_none() && !tail;
            if part.starts_with(';') && !is_last {
                return Err(PathPatternError::Parameter);
            }
            if let Segment::Param(name) = &segment {
                if pattern.param_names().any(|earlier| earlier == &**name) {
                    return Err(PathPatternError::DuplicateParam(name.to_string()));
                }
            }
            pattern.segments.push(segment);
        }
        Ok(pattern)
    }
}

impl FromStr for Segment {
    type Err = PathPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            return if is_parameter_name(name) {
                Ok(Self::Param(name.into()))
            } else {
                Err(PathPatternError::ParamName(name.into()))
            };
        }
        if text == "." || text == ".." {
            return Err(PathPatternError::DotSegment);
        }
        literal(text).map(Self::Literal)
    }
}

/// Whether a path can contain this text unescaped.
fn literal(text: &str) -> Result<Box<str>, PathPatternError> {
    for (at, character) in text.char_indices() {
        match character {
            '{' | '}' => return Err(PathPatternError::Braces(text.into())),
            '*' => return Err(PathPatternError::Star),
            '?' | '#' => return Err(PathPatternError::Query),
            '%' => check_escape(&text.as_bytes()[at..])?,
            _ if u8::try_from(character).is_ok_and(is_path_character) => {}
            _ => return Err(PathPatternError::Character(character)),
        }
    }
    Ok(text.replace("%2A", "*").into())
}

/// Writes the pattern as in a configuration.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{}", text.replace('*', "%2A"))?,
                Segment::Param(name) => write!(f, "/{{{name}}}")?,
                Segment::Prefix(start) => write!(f, "/{}*", start.replace('*', "%2A"))?,
            }
        }
        match self.segments.last() {
            Some(Segment::Prefix(_)) => Ok(()),
            _ if self.tail => f.write_str("/*"),
            _ => Ok(()),
        }
    }
}

/// Whether a parameter may have this name.
pub fn is_parameter_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a normal path can contain the escape at the beginning of `bytes`: it has capital
/// digits, and its character is not allowed unescaped. A pattern writes `%2A` for a `*`
/// that is part of a path.
fn check_escape(bytes: &[u8]) -> Result<(), PathPatternError> {
    let digits = bytes.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok());
    let (digits, value) = digits
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .and_then(|digits| Some((digits, u8::from_str_radix(digits, 16).ok()?)))
        .ok_or(PathPatternError::BadEscape)?;
    let written = format!("%{digits}");
    let right = match value {
        b'*' => written.to_ascii_uppercase(),
        byte if is_path_character(byte) => char::from(byte).to_string(),
        _ => written.to_ascii_uppercase(),
    };
    if written == right { Ok(()) } else { Err(PathPatternError::Escape { written, right }) }
}

impl PathPattern {
    /// The names of its parameters, in order.
    pub fn param_names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Param(name) => Some(&**name),
            Segment::Literal(_) | Segment::Prefix(_) => None,
        })
    }

    /// Whether a segment has [parameters](without_parameters).
    pub fn has_parameters(&self) -> bool {
        self.segments.iter().any(|segment| match segment {
            Segment::Literal(text) | Segment::Prefix(text) => text.contains(';'),
            Segment::Param(_) => false,
        })
    }

    /// Whether only paths that end in a slash have this pattern's form.
    pub fn ends_in_slash(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Literal(text)) if text.is_empty())
    }

    /// The pattern without the slash at its end.
    pub(crate) fn without_trailing_slash(&self) -> Self {
        let mut pattern = self.clone();
        pattern.segments.truncate(self.segments.len() - usize::from(self.ends_in_slash()));
        pattern
    }

    /// The pattern of all paths whose [loose form](crate::request::loose_path) is equal to
    /// that of a path that this pattern matches.
    pub fn loose(&self) -> Self {
        let mut pattern = self.without_trailing_slash();
        for segment in &mut pattern.segments {
            match segment {
                // The text after a parameter within a prefix is a parameter, too.
                Segment::Literal(text) | Segment::Prefix(text) if text.contains(';') => {
                    *segment = Segment::Literal(without_parameters(text).into());
                }
                _ => {}
            }
            segment.make_lower_case();
        }
        pattern
    }

    /// Whether this pattern matches every path that `later` matches.
    pub fn covers(&self, later: &Self) -> bool {
        let mine = self.segments.len();
        let theirs = later.segments.len();
        let long_enough = if self.tail { mine <= theirs } else { mine == theirs && !later.tail };
        long_enough
            && self.segments.iter().zip(&later.segments).all(|(mine, their)| mine.covers(their))
    }
}

impl Segment {
    /// Converts all letters of the pattern to lower case, for a route that ignores case.
    pub(crate) fn make_lower_case(&mut self) {
        match self {
            Self::Literal(text) | Self::Prefix(text) => text.make_ascii_lowercase(),
            Self::Param(_) => {}
        }
    }

    fn covers(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Param(_), Self::Param(_) | Self::Prefix(_)) => true,
            (Self::Param(_), Self::Literal(literal)) => !literal.is_empty(),
            (Self::Literal(mine), Self::Literal(their)) => mine == their,
            (Self::Prefix(mine), Self::Literal(their) | Self::Prefix(their)) => {
                their.starts_with(&**mine)
            }
            (Self::Literal(_), Self::Param(_) | Self::Prefix(_))
            | (Self::Prefix(_), Self::Param(_)) => false,
        }
    }
}

/// The segments of a request's path. `*`, the target of an OPTIONS request for the whole
/// server, has no segments: only `/*` matches it.
pub fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').into_iter().flat_map(|rest| rest.split('/'))
}

#[cfg(test)]
mod tests;

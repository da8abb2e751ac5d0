//! JSON Pointers (RFC 6901): they identify a value in a document.
//!
//! A pointer is parsed once, with the configuration. Copies share its tokens.

use std::str::FromStr;
use std::sync::Arc;

/// The most tokens of a pointer. Values at deeper levels are never read (see
/// [`MeterSpec::Json`](super::MeterSpec::Json)).
pub const MAX_POINTER_TOKENS: usize = 128;

/// A JSON Pointer such as `/usage/total_tokens` or `/choices/0/cost`. The empty pointer
/// means the whole document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Arc<[Token]>);

/// One step from a container to one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The member's key, if the container is an object.
    pub(super) key: Box<str>,
    /// The member's index, if the container is an array and the token is a valid index:
    /// `-`, `01` and numbers that exceed 64 bits are not.
    pub(super) index: Option<u64>,
    /// Whether it means every member, if the container is an array.
    is_each: bool,
}

/// Why a text is not a JSON Pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// `usage/total`
    #[error("a JSON Pointer begins with a slash, as in `/usage/total_tokens`, not `{0}`")]
    NoSlash(String),
    /// `/a~b`
    #[error(
        "`~` begins an escape in a JSON Pointer: in `{0}` write `~0` for `~`, and `~1` for a `/` \
         inside of a key"
    )]
    Escape(String),
    /// More than [`MAX_POINTER_TOKENS`].
    #[error("a JSON Pointer may have at most {MAX_POINTER_TOKENS} tokens")]
    TooDeep,
}

impl Pointer {
    /// The same values in each element of a document that is an array. JSON Pointers cannot be
    /// written so.
    pub(super) fn in_each_element(&self) -> Self {
        let each = Token { key: "".into(), index: None, is_each: true };
        Self(std::iter::once(each).chain(self.0.iter().cloned()).collect())
    }

    /// The steps from the document to the value.
    pub(super) fn tokens(&self) -> &[Token] {
        &self.0
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self(Arc::default()));
        }
        let rest = text.strip_prefix('/').ok_or_else(|| PointerError::NoSlash(text.into()))?;
        let tokens: Vec<Token> = rest
            .split('/')
            .take(MAX_POINTER_TOKENS + 1)
            .map(Token::read)
            .collect::<Result<_, _>>()?;
        if tokens.len() > MAX_POINTER_TOKENS {
            return Err(PointerError::TooDeep);
        }
        Ok(Self(tokens.into()))
    }
}

impl Token {
    fn read(written: &str) -> Result<Self, PointerError> {
        let mut escapes = written.split('~').skip(1);
        if escapes.any(|after| !after.starts_with(['0', '1'])) {
            return Err(PointerError::Escape(written.into()));
        }
        // The order matters: otherwise `~01` would become `/` (RFC 6901, section 4).
        let key = written.replace("~1", "/").replace("~0", "~");
        let is_index = written == "0"
            || !written.starts_with('0') && written.bytes().all(|byte| byte.is_ascii_digit());
        let index = is_index.then(|| written.parse().ok()).flatten();
        Ok(Self { key: key.into(), index, is_each: false })
    }

    /// Whether it identifies the member of an array with this index.
    pub(super) fn is_at(&self, index: u64) -> bool {
        self.is_each || self.index == Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        let pointer: Pointer = text.parse().expect("a pointer");
        pointer.tokens().iter().map(|token| token.key.to_string()).collect()
    }

    #[test]
    fn the_examples_of_the_rfc_are_parsed() {
        assert!(keys("").is_empty());
        let cases = [
            ("/foo", vec!["foo"]),
            ("/foo/0", vec!["foo", "0"]),
            ("/", vec![""]),
            ("/a~1b", vec!["a/b"]),
            ("/c%d", vec!["c%d"]),
            ("/k\"l", vec!["k\"l"]),
            ("/ ", vec![" "]),
            ("/m~0n", vec!["m~n"]),
            ("/~01", vec!["~1"]),
        ];
        for (text, expected) in cases {
            assert_eq!(keys(text), expected, "{text}");
        }
    }

    #[test]
    fn only_plain_numbers_are_indices() {
        let cases = [
            ("/0", Some(0)),
            ("/17", Some(17)),
            ("/01", None),
            ("/00", None),
            ("/-", None),
            ("/+1", None),
            ("/1e0", None),
            ("/", None),
            ("/18446744073709551616", None),
        ];
        for (text, index) in cases {
            let pointer: Pointer = text.parse().expect("a pointer");
            assert_eq!(pointer.tokens()[0].index, index, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_pointer_is_refused_with_advice() {
        let error = |text: &str| text.parse::<Pointer>().expect_err("no pointer").to_string();
        assert_eq!(
            error("usage/total"),
            "a JSON Pointer begins with a slash, as in `/usage/total_tokens`, not `usage/total`"
        );
        for (text, token) in [("/x/a~b", "a~b"), ("/a~", "a~"), ("/~~0", "~~0"), ("/~2/x", "~2")] {
            assert_eq!(text.parse::<Pointer>(), Err(PointerError::Escape(token.into())));
        }
    }

    #[test]
    fn a_pointer_has_at_most_as_many_tokens_as_a_document_has_levels() {
        let deep = |tokens| "/a".repeat(tokens).parse::<Pointer>();
        assert!(deep(MAX_POINTER_TOKENS).is_ok());
        assert_eq!(deep(MAX_POINTER_TOKENS + 1), Err(PointerError::TooDeep));
    }
}

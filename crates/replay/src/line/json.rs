//! A scanner for one JSON object (RFC 8259) in a line. It reports every text and number
//! with the names that lead to it, and allocates nothing.

use std::borrow::Cow;

use super::text::end_of_quoted;

/// Objects and arrays may be nested this deep.
const MAX_DEPTH: usize = 16;

/// A value that is neither an object nor an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'l> {
    /// The text between the quotes, with its escapes.
    Text(&'l [u8]),
    /// A number, `true`, `false` or `null`.
    Bare(&'l [u8]),
}

impl<'l> Value<'l> {
    /// The value as text, without escapes. `null` is no value.
    pub(super) fn plain(self) -> Option<Cow<'l, [u8]>> {
        match self {
            Self::Text(text) => Some(unescaped(text)),
            Self::Bare(b"null") => None,
            Self::Bare(text) => Some(Cow::Borrowed(text)),
        }
    }

    /// The value as it is written, without quotes: enough for numbers and times.
    pub(super) const fn raw(self) -> &'l [u8] {
        match self {
            Self::Text(text) | Self::Bare(text) => text,
        }
    }
}

/// Calls `see` with the names and the value of each leaf. Elements of an array have the
/// names of the array. None: the line is no JSON object.
pub(super) fn scan<'l>(line: &'l [u8], see: &mut dyn FnMut(&[&'l [u8]], Value<'l>)) -> Option<()> {
    let mut scanner = Scanner { rest: line, names: [b""; MAX_DEPTH], see };
    if scanner.next()? != b'{' {
        return None;
    }
    scanner.value(0, 0)?;
    scanner.rest.trim_ascii().is_empty().then_some(())
}

struct Scanner<'l, 's> {
    rest: &'l [u8],
    names: [&'l [u8]; MAX_DEPTH],
    see: &'s mut dyn FnMut(&[&'l [u8]], Value<'l>),
}

impl<'l> Scanner<'l, '_> {
    /// The first byte that is no blank; it stays.
    fn next(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        (self.next()? == expected).then(|| self.rest = &self.rest[1..])
    }

    fn string(&mut self) -> Option<&'l [u8]> {
        self.take(b'"')?;
        let end = end_of_quoted(self.rest)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Some(text)
    }

    /// Reads a value inside `depth` objects and arrays, of which `named` are objects.
    fn value(&mut self, depth: usize, named: usize) -> Option<()> {
        let value = match self.next()? {
            b'{' | b'[' if depth == MAX_DEPTH => return None,
            b'{' => return self.object(depth, named),
            b'[' => return self.array(depth, named),
            b'"' => Value::Text(self.string()?),
            _ => {
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                let end = self.rest.iter().position(is_end)?;
                let (bare, rest) = self.rest.split_at(end);
                self.rest = rest;
                let is_bare = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                if bare.is_empty() || !bare.iter().all(is_bare) {
                    return None;
                }
                Value::Bare(bare)
            }
        };
        (self.see)(&self.names[..named], value);
        Some(())
    }

    fn object(&mut self, depth: usize, named: usize) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.string()?;
            *self.names.get_mut(named)? = name;
            self.take(b':')?;
            self.value(depth + 1, named + 1)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn array(&mut self, depth: usize, named: usize) -> Option<()> {
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value(depth + 1, named)?;
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }
}

/// A text without its escapes. Lone surrogates become U+FFFD.
pub(super) fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let quoted = [b"\"", text, b"\""].concat();
    // Escapes are rare, so they need not be fast.
    serde_json::from_slice::<String>(&quoted)
        .map_or(Cow::Borrowed(text), |plain| Cow::Owned(plain.into_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaves(text: &str) -> Option<Vec<String>> {
        let mut leaves = Vec::new();
        scan(text.as_bytes(), &mut |names, value| {
            let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
            let plain = value.plain().unwrap_or_default();
            leaves.push(format!("{}={}", names.join("."), String::from_utf8_lossy(&plain)));
        })?;
        Some(leaves)
    }

    #[test]
    fn leaves_are_reported_with_their_names() {
        let text =
            r#" {"a":1,"b":{"c":"x\"\u00e9","d":["y","z"],"e":{}},"f":[],"g":null,"h":-1.5e3} "#;
        let expected = ["a=1", "b.c=x\"é", "b.d=y", "b.d=z", "g=", "h=-1.5e3"];
        assert_eq!(leaves(text).expect("an object"), expected);
    }

    #[test]
    fn what_is_no_object_is_not_read() {
        for text in
            ["", "[]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":1}x", "{\"a\":<}", "{a:1}"]
        {
            assert_eq!(leaves(text), None, "{text}");
        }
        assert_eq!(leaves(&("{\"a\":".repeat(40) + "1" + &"}".repeat(40))), None);
    }

    proptest! {
        #[test]
        fn no_input_panics(text in "[{}\\[\\]\",:a\\\\u0-9 ]{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = scan(text.as_bytes(), &mut |_, value| { let _ = value.plain(); });
            let _ = scan(&bytes, &mut |_, value| { let _ = value.plain(); });
        }

        #[test]
        fn what_a_library_writes_is_read(names in prop::collection::vec(".{0,6}", 1..4), value in ".{0,12}") {
            let object: serde_json::Map<_, _> =
                names.iter().map(|name| (name.clone(), value.clone().into())).collect();
            let text = serde_json::to_string(&object).unwrap();
            let mut count = 0;
            scan(text.as_bytes(), &mut |_, found| {
                count += 1;
                assert_eq!(found.plain().as_deref(), Some(value.as_bytes()));
            }).expect("an object");
            prop_assert_eq!(count, object.len());
        }
    }
}

//! The key of a client in a question: a text, or words with their values.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate_core::digest::Principal;
use tollgate_core::policy::KeyExpr;
use tollgate_core::routes::Rules;

use super::problem::Problem;

/// The most words of a key in a question.
const MAX_WORDS: usize = 64;

/// What a question calls its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedKey {
    /// The text for `tollgate override`.
    Text(String),
    /// Words of the policy's key with their values. A value is never taken for anything else, so a
    /// program escapes nothing.
    Words(Vec<(KeyExpr, String)>),
}

impl AskedKey {
    /// The principal for policies with the key `key`.
    ///
    /// # Errors
    /// If no request can have this key.
    pub fn principal(&self, rules: &Rules, key: &KeyExpr) -> Result<Principal, Problem> {
        let wrong = |detail: String| Problem::bad_request(detail).at("/key");
        let principal = match self {
            Self::Text(text) => rules.principal(key, text),
            Self::Words(words) => {
                if let Some((word, _)) = words.iter().find(|(word, _)| !key.has(word)) {
                    let word = word.form();
                    let form = key.form();
                    return Err(wrong(format!("{word} is not a part of the policy's key, {form}")));
                }
                rules.principal_of(key, |word| {
                    words.iter().find(|(own, _)| own == word).map(|(_, value)| &**value)
                })
            }
        };
        principal.map_err(|error| wrong(error.to_string()))
    }

    /// The text for operators, for policies with the key `key`. None: it has several words.
    pub fn shown(&self, rules: &Rules, key: &KeyExpr) -> Option<String> {
        match self {
            Self::Text(text) => rules.shown_key(key, text),
            Self::Words(words) => {
                let (_, value) = words.iter().find(|(word, _)| word == key)?;
                rules.shown_key(key, value)
            }
        }
    }
}

impl<'de> Deserialize<'de> for AskedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

/// The text of an API key. It is not shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct KeyText(pub String);

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyText").field(&self.0.len()).finish()
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = AskedKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an object with words of the policy's key and their values")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AskedKey, E> {
        Ok(AskedKey::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AskedKey, A::Error> {
        let mut words = Vec::new();
        while let Some(written) = map.next_key::<String>()? {
            let word: KeyExpr = written.parse().map_err(A::Error::custom)?;
            if words.iter().any(|(known, _)| *known == word) {
                return Err(A::Error::custom(format!("the word {written:?} occurs twice")));
            }
            if words.len() == MAX_WORDS {
                return Err(A::Error::custom(format!("a key has at most {MAX_WORDS} words")));
            }
            words.push((word, map.next_value()?));
        }
        Ok(AskedKey::Words(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<AskedKey, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_is_a_text_or_words_with_values() {
        assert_eq!(read(r#""user=ann""#), Ok(AskedKey::Text("user=ann".to_owned())));
        let pair = |word: &str, value: &str| (word.parse().unwrap(), value.to_owned());
        let words = vec![pair("ip", "192.0.2.7"), pair("header:x-tenant", "a&ip=1")];
        let written = r#"{"ip": "192.0.2.7", "header:X-Tenant": "a&ip=1"}"#;
        assert_eq!(read(written), Ok(AskedKey::Words(words)));
    }

    #[test]
    fn other_keys_are_refused() {
        let many: Vec<String> = (0..=MAX_WORDS).map(|it| format!(r#""query:{it}": """#)).collect();
        let many = format!("{{{}}}", many.join(","));
        for (json, part) in [
            ("5", "expected a string, or an object"),
            (r#"["ann"]"#, "expected a string, or an object"),
            (r#"{"ip": 5}"#, "expected a string"),
            (r#"{"ip": "a", "ip": "b"}"#, "occurs twice"),
            (r#"{"header:a": "1", "header:A": "2"}"#, "occurs twice"),
            (r#"{"nothing": "a"}"#, "nothing"),
            (&many, "at most 64 words"),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}

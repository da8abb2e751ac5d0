//! The whole text of a client's key, which is kept only with `admin.reveal_keys`.

use std::fmt;

/// A whole key. It may be a secret of its client, so it is in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct WholeKey(Box<str>);

impl WholeKey {
    /// The key itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for WholeKey {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for WholeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WholeKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_key_is_never_printed() {
        let key = WholeKey::from("header x-api-key 4f9d81".to_owned());
        assert_eq!(format!("{key:?}"), "WholeKey(..)");
        assert_eq!(key.as_str(), "header x-api-key 4f9d81");
    }
}

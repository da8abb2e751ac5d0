//! What a document is searched for, in the form that the search needs.

use super::pointer::Pointer;

/// The most bytes by which a character is longer than one that differs only in case.
const MAX_FOLDING: usize = 4;

/// Pointers to the values for which documents are searched. They are prepared once, and not for
/// each document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoughtPointers {
    pub(super) all: Box<[Sought]>,
    /// The most bytes of a key that can be one of those that are searched for.
    pub(super) max_key_bytes: usize,
}

/// One pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sought {
    pub(super) pointer: Pointer,
    /// The keys of its tokens without case.
    folded: Box<[Box<str>]>,
}

impl SoughtPointers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl FromIterator<Pointer> for SoughtPointers {
    fn from_iter<P: IntoIterator<Item = Pointer>>(pointers: P) -> Self {
        let all: Box<[Sought]> = pointers.into_iter().map(Sought::new).collect();
        let tokens = all.iter().flat_map(|sought| sought.pointer.tokens());
        let longest = tokens.map(|token| token.key.len()).max().unwrap_or_default();
        Self { all, max_key_bytes: longest * MAX_FOLDING }
    }
}

impl Sought {
    fn new(pointer: Pointer) -> Self {
        let keys = pointer.tokens().iter();
        let folded = keys.map(|token| folded(&token.key).collect::<String>().into()).collect();
        Self { pointer, folded }
    }

    /// Whether a key, which is not that of the token with this index, differs from it in case only.
    pub(super) fn is_alike(&self, level: usize, key: &str) -> bool {
        is_alike(key, &self.folded[level])
    }
}

/// Whether a key is the same as `folded`, which has no case, but for its case.
pub(super) fn is_alike(key: &str, folded_key: &str) -> bool {
    if key.is_ascii() {
        return key.eq_ignore_ascii_case(folded_key);
    }
    folded(key).eq(folded_key.chars())
}

/// The characters of a text without case.
fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn key() -> impl Strategy<Value = String> {
        let characters = "aAkKsSiI_0\u{17f}\u{212a}\u{131}\u{130}éÉßẞ";
        let characters: Vec<char> = characters.chars().collect();
        vec(select(characters), 0..4).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn keys_are_alike_if_they_are_the_same_without_case(key in key(), other in key()) {
            let without_case: String = folded(&other).collect();
            let expected = folded(&key).eq(without_case.chars());
            prop_assert_eq!(is_alike(&key, &without_case), expected);
            prop_assert!(is_alike(&other, &without_case));
        }
    }
}

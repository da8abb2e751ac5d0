//! One form for all spellings of a name: NFKC (Unicode Standard Annex #15), lower case, without
//! blanks around it.
//!
//! Systems that compare the names of accounts in such a form take `Ann`, `ANN ` and `ａｎｎ` for the
//! same account. With another counter for each spelling, a client would have many limits.

use std::borrow::Cow;

/// The form of a name that all of its spellings have. Bytes that are not UTF-8 stay.
pub(super) fn fold(name: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match std::str::from_utf8(&name) {
        // The usual form of a name needs no other.
        Ok(text) if is_folded(text) => name,
        Ok(text) => Cow::Owned(folded(text).into_bytes()),
        Err(_) => name,
    }
}

fn is_folded(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
    text.bytes().all(is_plain)
}

/// Lower case is not always composed, so the form is computed until it stays.
fn folded(text: &str) -> String {
    let mut text = once(text);
    // Twice is enough for all of Unicode.
    for _ in 0..2 {
        text = once(&text);
    }
    text
}

fn once(text: &str) -> String {
    let composed = composed(text);
    // Without the context by which a sigma ends a word.
    let lower: String = composed.chars().flat_map(char::to_lowercase).collect();
    lower.trim().to_owned()
}

#[cfg(feature = "fold")]
fn composed(text: &str) -> Cow<'_, str> {
    icu_normalizer::ComposingNormalizerBorrowed::new_nfkc().normalize(text)
}

/// Without the feature `fold`, no key is folded.
#[cfg(not(feature = "fold"))]
fn composed(text: &str) -> Cow<'_, str> {
    text.into()
}

#[cfg(all(test, feature = "fold"))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> String {
        String::from_utf8(fold(text.as_bytes().into()).into_owned()).expect("UTF-8")
    }

    #[test]
    fn all_spellings_of_a_name_have_one_form() {
        for spelling in ["ann", "Ann", " ANN\t", "ａｎｎ", "Ａnn", "\u{a0}ann\u{3000}", "ᵃnn"]
        {
            assert_eq!(of(spelling), "ann", "{spelling:?}");
        }
        for spelling in ["é", "É", "e\u{301}", "E\u{301}"] {
            assert_eq!(of(spelling), "é", "{spelling:?}");
        }
        assert_eq!(of("\u{212a}ar\u{17f}"), "kars");
        assert_eq!((of("ΟΔΟΣ"), of("οδοσ")), ("οδοσ".into(), "οδοσ".into()));
        assert_eq!(of(" \u{3000} "), "");
        assert_eq!(of("ann@example.com"), "ann@example.com");
        assert_ne!(of("ann"), of("anna"));
    }

    #[test]
    fn bytes_that_are_not_utf_8_stay() {
        assert_eq!(fold(b"A\xff "[..].into()), &b"A\xff "[..]);
    }

    proptest! {
        #[test]
        fn the_form_of_a_form_is_the_form(text in "\\PC{0,8}") {
            let once = of(&text);
            prop_assert_eq!(of(&once), once.clone());
            prop_assert_eq!(of(&once.to_lowercase()), of(&once));
        }

        #[test]
        fn case_and_blanks_make_no_difference_to_letters(text in "[a-z0-9._@-]{1,12}") {
            prop_assert_eq!(of(&format!(" {} ", text.to_uppercase())), text);
        }
    }
}

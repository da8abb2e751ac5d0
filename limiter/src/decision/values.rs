//! Values of fields that are made for one response.

use std::cell::RefCell;

use bytes::BytesMut;
use http::HeaderValue;
use http::header::InvalidHeaderValue;

/// The memory that the values of one thread share. A value that is kept keeps all of it.
const SHARED_BYTES: usize = 2048;
/// Longer values have memory of their own.
const MAX_BYTES: usize = 128;

thread_local! {
    /// The end of the shared memory that is not used yet.
    static UNUSED: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// The value of a field with this text, for a response or a request that does not last long.
/// Values share memory, so that most of them need no allocation.
///
/// # Errors
/// If the text is not valid as a value.
pub fn brief_value(text: &[u8]) -> Result<HeaderValue, InvalidHeaderValue> {
    if text.len() > MAX_BYTES {
        return HeaderValue::from_bytes(text);
    }
    UNUSED.with_borrow_mut(|unused| {
        if unused.capacity() < text.len() {
            unused.reserve(SHARED_BYTES);
        }
        unused.extend_from_slice(text);
        HeaderValue::from_maybe_shared(unused.split().freeze())
    })
}

/// Marks a value that nearly every response has anew, so that HTTP/2 does not enter it into the
/// table of fields (RFC 7541, section 6.2.3). There it would replace values that come again, and
/// each search for the field would compare all its earlier values. The `Debug` of such a value is
/// `Sensitive`.
pub fn varying(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is kept and dropped, a value is what it was made of.
        #[test]
        fn values_do_not_change(texts in prop::collection::vec("[!-~]{0,150}", 1..100), kept: u8) {
            let mut values = Vec::new();
            for (number, text) in texts.iter().enumerate() {
                let value = brief_value(text.as_bytes()).unwrap();
                prop_assert_eq!(&value, text.as_str());
                if number % 8 <= usize::from(kept % 9) {
                    values.push((text, value));
                }
            }
            for (text, value) in values {
                prop_assert_eq!(value, text.as_str());
            }
        }
    }

    #[test]
    fn a_text_that_is_no_value_is_refused() {
        assert!(brief_value(b"a\nb").is_err());
        assert_eq!(brief_value(b"a b").unwrap(), "a b");
    }
}

//! Elements of HTTP: methods, and the names and values of header fields.

use std::str::FromStr;

use http::{HeaderName, HeaderValue, Method};

use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;

/// A method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodName(pub Method);

written_as_text!(MethodName, text METHOD, "A method, in capital letters", "GET", "POST");

impl FromStr for MethodName {
    type Err = ScalarError;

    /// Methods are case-sensitive (RFC 9110, section 9.1), so `get` would never match a request.
    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let advice = "methods are written in capitals: GET, POST, ...";
        let invalid = || ScalarError::new(format!("\"{text}\" is not a method"), advice);
        if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
            return Err(invalid());
        }
        text.parse().map(Self).map_err(|_| invalid())
    }
}

/// The name of a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName(pub HeaderName);

written_as_text!(FieldName, form FIELD_NAME, "The name of a header field", "x-api-key");

impl FromStr for FieldName {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self).map_err(|_| {
            let advice = "use letters, digits and -, like x-api-key";
            ScalarError::new(format!("\"{text}\" is not a valid name of a header field"), advice)
        })
    }
}

/// The value of a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue(pub HeaderValue);

written_as_text!(FieldValue, "The value of a header field", "2");

/// The name of an access list, or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListName(pub String);

written_as_text!(ListName, "The name of an access list, or none", "office");

impl FromStr for ListName {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        Ok(Self(text.to_owned()))
    }
}

/// The value of a header field, a parameter or a cookie, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchText(pub String);

written_as_text!(MatchText, "The value of a header field, a parameter or a cookie", "2");

impl FromStr for MatchText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for FieldValue {
    type Err = ScalarError;

    /// The value has no blanks around it, because parsers remove them (RFC 9110, section 5.5).
    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let invalid = || {
            let advice = "use one line of visible characters, without leading or trailing blanks";
            ScalarError::new(format!("{text:?} is not a valid value of a header field"), advice)
        };
        if text.trim() != text {
            return Err(invalid());
        }
        text.parse().map(Self).map_err(|_| invalid())
    }
}

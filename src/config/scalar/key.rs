//! Keys of one word. The module `policy` defines their grammar, and this file reads them with serde.

use std::str::FromStr;

use super::text::{ScalarError, written_as_text};
use crate::policy::{KeyExpr, KeyExprError};

/// A key of one word, such as `ip` or `header:x-tenant`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWord(pub KeyExpr);

written_as_text!(KeyWord, "What one counter belongs to", "ip", "api_key", "header:x-tenant");

impl FromStr for KeyWord {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self).map_err(|error| match error {
            KeyExprError::Unknown(word) => ScalarError::new(
                format!("there is no key \"{word}\""),
                "keys are ip, api_key, user, cookie:NAME, header:NAME, query:NAME, jwt:CLAIM, tls:subject, \
                 param:NAME, path, method, host, route, country, region, asn and global",
            ),
            other => ScalarError::of(other, "like ip, cookie:session or header:x-tenant"),
        })
    }
}

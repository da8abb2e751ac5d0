//! A key of a configuration that has nothing but one policy.

use std::str::FromStr;

use tollgate_core::policy::KeyExpr;
use tollgate_core::policy::spec::ClientFacts;
use tollgate_core::scalar::ScalarError;

use super::KeyWord;

const ADVICE: &str =
    "use another key, such as ip or api_key, or write a file with the section that it needs";

/// A key that requests can have without another section of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoneKey(pub KeyExpr);

impl FromStr for LoneKey {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let KeyWord(key) = text.parse()?;
        let missing = match &key {
            KeyExpr::Param(_) => Some("the path of the only route has no parameters".to_owned()),
            KeyExpr::Authorizer(_) => Some("no authorizer is asked".to_owned()),
            key => key.faults(ClientFacts::default()).pop().map(|(_, remark)| remark.message),
        };
        match missing {
            Some(message) => Err(ScalarError::new(message, ADVICE)),
            None => Ok(Self(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_need_another_section_are_refused() {
        for good in ["ip", "api_key", "cookie:a", "header:x-a", "query:a", "path", "global"] {
            assert!(good.parse::<LoneKey>().is_ok(), "{good}");
        }
        for (text, expected) in [
            ("user", "no request has a user"),
            ("jwt:sub", "no token is verified"),
            ("api_key:team", "no API key is known"),
            ("country", "client.geo"),
            ("class", "client.classes"),
            ("agent", "client.agents"),
            ("param:id", "no parameters"),
            ("authorizer:x-tenant", "no authorizer"),
            ("sun", "there is no key \"sun\""),
        ] {
            let error = text.parse::<LoneKey>().map(|it| it.0).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

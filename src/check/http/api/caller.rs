//! Which policies a caller may charge. Pure.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::{HeaderMap, StatusCode};
use tollgate_core::policy::Policy;

use super::problem::Problem;
use crate::admin::{Token, TokenDigest};
use crate::check::settings::{CheckToken, HttpSettings};
use crate::check::wildcard::Wildcard;
use crate::patches::CANDIDATE;

/// A caller that may ask.
#[derive(Clone, Debug)]
pub struct Caller<'s> {
    /// The number of its token, beginning with 1. 0: none is needed.
    pub number: usize,
    token: Option<&'s CheckToken>,
}

impl<'s> Caller<'s> {
    /// The caller with these fields. All tokens are compared, in constant time.
    ///
    /// # Errors
    /// If calls need a token, and it has none of them.
    pub fn of(settings: &'s HttpSettings, fields: &HeaderMap) -> Result<Self, Problem> {
        Self::with_tokens(&settings.tokens, fields)
    }

    /// The caller that [`of`](Self::of) has found with these settings.
    pub fn numbered(settings: &'s HttpSettings, number: usize) -> Self {
        let token = number.checked_sub(1).and_then(|index| settings.tokens.get(index));
        Self { number, token }
    }

    /// The digest of its token. Empty: it needs none.
    pub fn digest(&self) -> &'s [u8] {
        self.token.map_or(&[], |token| token.digest.bytes())
    }

    fn with_tokens(tokens: &'s [CheckToken], fields: &HeaderMap) -> Result<Self, Problem> {
        if tokens.is_empty() {
            return Ok(Self { number: 0, token: None });
        }
        let detail = match Token::of(fields) {
            Token::Bearer(token) => {
                let digest = TokenDigest::of(token);
                let mut found = None;
                for (index, known) in tokens.iter().enumerate() {
                    if verify_slices_are_equal(known.digest.bytes(), digest.bytes()).is_ok() {
                        found = Some(Self { number: index + 1, token: Some(known) });
                    }
                }
                match found {
                    Some(caller) => return Ok(caller),
                    None => "the token is not valid",
                }
            }
            Token::Absent => "this call needs a token: Authorization: Bearer TOKEN",
            Token::Unreadable => "Authorization is not one bearer token",
        };
        Err(Problem::new(StatusCode::UNAUTHORIZED, detail))
    }

    /// Whether it may charge the policy.
    ///
    /// # Errors
    /// If its token has patterns, and none matches.
    pub fn may_charge(&self, policy: &Policy) -> Result<(), Problem> {
        // Another limit that is tried has the name of its policy.
        self.may_name(policy.name.strip_suffix(CANDIDATE).unwrap_or(&policy.name))
    }

    /// The same for a name.
    ///
    /// # Errors
    /// If its token has patterns, and none matches.
    pub fn may_name(&self, name: &str) -> Result<(), Problem> {
        let patterns = self.token.and_then(|token| token.policies.as_ref());
        let matches = |pattern: &Wildcard| pattern.matches(name);
        if patterns.is_none_or(|patterns| patterns.iter().any(matches)) {
            return Ok(());
        }
        Err(Problem::forbidden(format!("the token does not allow the policy {name:?}")))
    }

    /// Whether it may charge all policies, and the limits of others.
    ///
    /// # Errors
    /// If its token has patterns.
    pub fn may_charge_all(&self) -> Result<(), Problem> {
        if self.token.is_none_or(|token| token.policies.is_none()) {
            return Ok(());
        }
        Err(Problem::forbidden("this call needs a token without \"policies\""))
    }

    /// Whether it may state limits.
    ///
    /// # Errors
    /// If no token allows it.
    pub fn may_state_limits(&self) -> Result<(), Problem> {
        if self.token.is_some_and(|token| token.dynamic) {
            return Ok(());
        }
        Err(Problem::forbidden("limits in the question need a token with dynamic: true"))
    }
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::*;

    fn token(text: &str, policies: Option<&[&str]>, dynamic: bool) -> CheckToken {
        let patterns = |all: &[&str]| all.iter().map(|it| Wildcard::new(it)).collect();
        let digest = TokenDigest::of(text.as_bytes());
        CheckToken { digest, policies: policies.map(patterns), dynamic }
    }

    fn fields(values: &[&str]) -> HeaderMap {
        let parse = |value: &&str| value.parse().expect("it is a value");
        values.iter().map(|value| (AUTHORIZATION, parse(value))).collect()
    }

    #[test]
    fn a_caller_needs_one_of_the_tokens_if_there_are_any() {
        let tokens = [token("one", None, false), token("two", None, true)];
        let number = |values: &[&str]| {
            let caller = Caller::with_tokens(&tokens, &fields(values));
            caller.map(|it| it.number).map_err(|it| it.status.as_u16())
        };
        assert_eq!(number(&["Bearer one"]), Ok(1));
        assert_eq!(number(&["bearer two"]), Ok(2));
        for wrong in [&[][..], &["Bearer three"], &["Basic one"], &["Bearer one", "Bearer two"]] {
            assert_eq!(number(wrong), Err(401), "{wrong:?}");
        }
        let caller = Caller::with_tokens(&[], &fields(&[])).expect("it may ask");
        assert!(caller.may_name("any").is_ok() && caller.may_state_limits().is_err());
    }

    #[test]
    fn a_token_allows_policies_and_limits() {
        let tokens = [token("one", Some(&["chat-*", "x"]), false), token("two", None, true)];
        let caller = |value| Caller::with_tokens(&tokens, &fields(&[value])).expect("it is known");
        let one = caller("Bearer one");
        let two = caller("Bearer two");
        let status = |found: Result<(), Problem>| found.map_err(|it| it.status.as_u16());
        assert_eq!(status(one.may_name("chat-eu")), Ok(()));
        assert_eq!(status(one.may_name("chats")), Err(403));
        assert_eq!(status(two.may_name("chats")), Ok(()));
        assert_eq!(status(one.may_state_limits()), Err(403));
        assert_eq!(status(two.may_state_limits()), Ok(()));
    }

    #[test]
    fn a_token_with_patterns_may_not_charge_all() {
        let tokens = [token("one", Some(&["*"]), true), token("two", None, false)];
        let status = |value: &str| {
            let fields = fields(&[value]);
            let caller = Caller::with_tokens(&tokens, &fields).expect("it has a token");
            caller.may_charge_all().map_err(|it| it.status.as_u16())
        };
        assert_eq!((status("Bearer one"), status("Bearer two")), (Err(403), Ok(())));
        let caller = Caller::with_tokens(&[], &HeaderMap::new()).expect("none is needed");
        assert_eq!(caller.may_charge_all(), Ok(()));
    }
}

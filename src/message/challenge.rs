//! The challenges of a response to a request without a right credential.

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue};
use tollgate_core::policy::{AuthFault, AuthRefusal, Scheme};

/// `Retry-After` while keys cannot be looked up.
const AWAY_RETRY_SECS: u64 = 1;

/// Adds one challenge for each scheme, in the order of the route's methods (RFC 9110, section
/// 11.6.1). It names an error only if there was a credential (RFC 6750, section 3.1).
pub fn add_challenges(refusal: &AuthRefusal, headers: &mut HeaderMap) {
    let wait_s = match refusal.fault {
        AuthFault::TooManyFailures(wait) => Some(wait.as_secs_ceil()),
        AuthFault::KeysAway => Some(AWAY_RETRY_SECS),
        _ => None,
    };
    if let Some(wait_s) = wait_s {
        headers.insert(RETRY_AFTER, wait_s.into());
    }
    if !refusal.is_unauthorized() {
        return;
    }
    for scheme in refusal.challenges.iter() {
        headers.append(WWW_AUTHENTICATE, challenge(scheme, refusal.fault.is_wrong()));
    }
}

const fn challenge(scheme: Scheme, is_wrong: bool) -> HeaderValue {
    HeaderValue::from_static(match (scheme, is_wrong) {
        (Scheme::Bearer, false) => "Bearer realm=\"tollgate\"",
        (Scheme::Bearer, true) => "Bearer realm=\"tollgate\", error=\"invalid_token\"",
        (Scheme::ApiKey, false) => "ApiKey realm=\"tollgate\"",
        (Scheme::ApiKey, true) => "ApiKey realm=\"tollgate\", error=\"invalid_token\"",
    })
}

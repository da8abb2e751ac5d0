//! The challenges of a response to a request without a right credential.

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue};
use tollgate_core::policy::{AuthFault, AuthRefusal, Scheme};

/// `Retry-After` while credentials cannot be looked up.
const AWAY_RETRY_SECS: u64 = 1;

const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"tollgate\"");
const BEARER_INVALID: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"tollgate\", error=\"invalid_token\"");
const API_KEY: HeaderValue = HeaderValue::from_static("ApiKey realm=\"tollgate\"");
const API_KEY_INVALID: HeaderValue =
    HeaderValue::from_static("ApiKey realm=\"tollgate\", error=\"invalid_token\"");

/// Adds `Retry-After` if the credential may be accepted later.
pub fn add_wait(fault: AuthFault, headers: &mut HeaderMap) {
    let wait_s = match fault {
        AuthFault::TooManyFailures(wait) => Some(wait.as_secs_ceil()),
        AuthFault::KeysAway | AuthFault::PasswordsBusy => Some(AWAY_RETRY_SECS),
        _ => None,
    };
    if let Some(wait_s) = wait_s {
        headers.insert(RETRY_AFTER, wait_s.into());
    }
}

/// Adds one challenge for each scheme, in the order of the route's methods (RFC 9110, section
/// 11.6.1). It names an error only if there was a credential (RFC 6750, section 3.1). `basic` is the
/// challenge for passwords.
pub fn add_challenges(refusal: &AuthRefusal, basic: Option<&HeaderValue>, headers: &mut HeaderMap) {
    add_wait(refusal.fault, headers);
    if !refusal.is_unauthorized() {
        return;
    }
    let is_wrong_token = refusal.fault.is_wrong() && refusal.fault != AuthFault::Password;
    for scheme in refusal.challenges.iter() {
        let challenge = match (scheme, is_wrong_token) {
            (Scheme::Basic, _) => basic.cloned(),
            (Scheme::Bearer, false) => Some(BEARER),
            (Scheme::Bearer, true) => Some(BEARER_INVALID),
            (Scheme::ApiKey, false) => Some(API_KEY),
            (Scheme::ApiKey, true) => Some(API_KEY_INVALID),
        };
        if let Some(challenge) = challenge {
            headers.append(WWW_AUTHENTICATE, challenge);
        }
    }
}

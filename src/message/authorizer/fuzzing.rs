//! The fuzz target of this module: answers of authorizers over gRPC.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName};
use prost::Message as _;

use super::answer::OF_REFUSALS;
use super::check::{PATH, checked};
use super::{AnswerCacheSettings, Answered, AuthorizerSettings, Reuse};
use crate::grpc::authorization::{CheckResponse, HttpResponse};
use crate::grpc::one_message;

const MAX_BODY: usize = 64;
const MAX_MESSAGE: usize = 64 * 1024;

fn settings() -> AuthorizerSettings {
    AuthorizerSettings {
        name: Arc::from("sso"),
        upstream: 0,
        target: PathAndQuery::from_static(PATH),
        is_grpc: true,
        send: None,
        take: ["remote-user", "remote-groups"].map(HeaderName::from_static).to_vec(),
        timeout: Duration::from_secs(1),
        allows_on_failure: false,
        max_response_bytes: MAX_BODY,
        cache: Some(AnswerCacheSettings { time: Duration::from_secs(9), max: 9, by: Vec::new() }),
    }
}

/// The body of an authorizer's answer over gRPC.
pub fn verdicts(input: &[u8]) {
    let Ok(message) = one_message(Bytes::copy_from_slice(input), MAX_MESSAGE) else { return };
    let settings = settings();
    let Ok(found) = checked(&settings, message.clone()) else { return };
    let response = CheckResponse::decode(message).expect("it was decoded before");
    let is_denied = matches!(response.http_response, Some(HttpResponse::Denied(_)));
    let code = response.status.map(|status| status.code);
    assert!(code.is_some() || response.http_response.is_some(), "it says nothing");
    match found.answered {
        Answered::Passed(taken) => {
            assert!(!is_denied && code.unwrap_or(0) == 0, "a refusal passes");
            let mut headers = HeaderMap::new();
            taken.write(&settings, &mut headers);
            assert!(headers.keys().all(|name| settings.take.contains(name)), "it takes more");
            let lasts = taken.cookies.is_empty();
            assert!(lasts || found.reuse == Reuse::Never, "a cookie is for others");
        }
        Answered::Refused(refused) => {
            assert!(is_denied || code.is_some_and(|code| code != 0), "nothing has refused it");
            let response = refused.response();
            assert!((200..600).contains(&response.status().as_u16()));
            assert!(response.body().len() <= MAX_BODY, "the body has no bound");
            let is_needed =
                |name: &HeaderName| OF_REFUSALS.contains(name) || name == "cache-control";
            assert!(response.headers().keys().all(is_needed), "the client gets more");
            let is_kept = matches!(found.reuse, Reuse::Within(_));
            assert!(!is_kept || response.status() == 403);
            let has_cookie = response.headers().contains_key(SET_COOKIE);
            assert!(!has_cookie || found.reuse == Reuse::Never, "a cookie is for others");
        }
    }
    assert!(!matches!(found.reuse, Reuse::Within(time) if time > Duration::from_secs(9)));
}

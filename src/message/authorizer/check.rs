//! The question to an authorizer over gRPC, and its answer: the method `Check` of Envoy's service
//! for external authorization (`envoy.service.auth.v3`).
//!
//! Only an answer that says so lets a request pass. One that denies the request does not, whatever
//! else it says, and one that says nothing is no answer.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use prost::Message as _;

use super::AuthorizerSettings;
use super::answer::{Answered, OF_REFUSALS, Refused, Taken};
use super::question::{
    ORIGINAL_FIELDS, Question, X_FORWARDED_HOST, X_FORWARDED_METHOD, X_FORWARDED_PROTO,
    X_FORWARDED_URI, X_REAL_IP,
};
use super::reuse::Reuse;
use crate::grpc::authorization::{
    Address, AttributeContext, AttributeRequest, CheckRequest, CheckResponse, DeniedHttpResponse,
    HeaderValueOption, HttpRequest, HttpResponse, OkHttpResponse, Peer, SocketAddress,
};
use crate::message::MAX_RESPONSE_FIELDS;

/// The target of a question.
pub const PATH: &str = "/envoy.service.auth.v3.Authorization/Check";

/// The fields of an answer that say something to the client of a request which passes.
const TOLD: [HeaderName; 2] = [CACHE_CONTROL, SET_COOKIE];

/// Why a message is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckFault {
    /// It is not a message of the service, or says nothing about the request.
    Malformed,
    /// Its body is larger than the authorizer's may be, or it has too many fields.
    TooLarge,
}

/// The meaning of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub answered: Answered,
    /// For which questions it is used.
    pub reuse: Reuse,
    /// Whether it demands changes of the request or of its response that are not made.
    pub has_more: bool,
}

/// The message of a question.
pub fn check_request(question: &Question) -> CheckRequest {
    let fields = &question.fields;
    let text = |name: &HeaderName| fields.get(name).map(lossy).unwrap_or_default();
    let is_sent = |name: &&HeaderName| !ORIGINAL_FIELDS.contains(name) && **name != X_REAL_IP;
    let sent = fields.keys().filter(is_sent);
    let http = HttpRequest {
        method: text(&X_FORWARDED_METHOD),
        headers: sent.map(|name| (name.as_str().to_owned(), joined(name, fields))).collect(),
        path: text(&X_FORWARDED_URI),
        host: text(&X_FORWARDED_HOST),
        scheme: text(&X_FORWARDED_PROTO),
        // It is not known: the question is asked before the body has come.
        size: -1,
        protocol: question.protocol.map(protocol).unwrap_or_default().to_owned(),
        header_map: None,
    };
    let address = SocketAddress { address: text(&X_REAL_IP) };
    let address = Some(Address { socket_address: Some(address) });
    let request = Some(AttributeRequest { http: Some(http) });
    let attributes = AttributeContext { source: Some(Peer { address }), request };
    CheckRequest { attributes: Some(attributes) }
}

fn lossy(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// All lines of a field, as Envoy joins them.
fn joined(name: &HeaderName, fields: &HeaderMap) -> String {
    let lines: Vec<String> = fields.get_all(name).iter().map(lossy).collect();
    lines.join(",")
}

/// The version in Envoy's words.
const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_3 => "HTTP/3",
        _ => "HTTP/1.1",
    }
}

/// The meaning of the message in these bytes.
///
/// # Errors
/// If it is no answer.
pub fn checked(settings: &AuthorizerSettings, message: Bytes) -> Result<Checked, CheckFault> {
    let response = CheckResponse::decode(message).map_err(|_| CheckFault::Malformed)?;
    let code = response.status.map(|status| status.code);
    match (response.http_response, code) {
        (Some(HttpResponse::Denied(denied)), _) => refused(settings, denied),
        (_, Some(code)) if code != 0 => refused(settings, DeniedHttpResponse::default()),
        (Some(HttpResponse::Ok(ok)), _) => passed(settings, &ok),
        (None, Some(_)) => passed(settings, &OkHttpResponse::default()),
        (None, None) => Err(CheckFault::Malformed),
    }
}

fn passed(settings: &AuthorizerSettings, ok: &OkHttpResponse) -> Result<Checked, CheckFault> {
    let (fields, has_others) = selected(&ok.headers, &settings.take)?;
    let (told, tells_more) = selected(&ok.response_headers_to_add, &TOLD)?;
    let changes_more = !ok.headers_to_remove.is_empty()
        || !ok.query_parameters_to_set.is_empty()
        || !ok.query_parameters_to_remove.is_empty();
    let time = settings.cache.as_ref().map(|cache| cache.time);
    Ok(Checked {
        reuse: Reuse::of(StatusCode::OK, &told, time),
        answered: Answered::Passed(Taken::new(fields, &told)),
        has_more: has_others || tells_more || changes_more,
    })
}

/// Whether the status of a denial says so or not, the request does not pass.
fn refused(
    settings: &AuthorizerSettings,
    denied: DeniedHttpResponse,
) -> Result<Checked, CheckFault> {
    if denied.body.len() > settings.max_response_bytes {
        return Err(CheckFault::TooLarge);
    }
    let code = denied.status.and_then(|status| u16::try_from(status.code).ok());
    let is_final = |code: &u16| (200..600).contains(code);
    let status = code.filter(is_final).and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.unwrap_or(StatusCode::FORBIDDEN);
    let names = [&OF_REFUSALS[..], &[CACHE_CONTROL]].concat();
    let (fields, _) = selected(&denied.headers, &names)?;
    let time = settings.cache.as_ref().map(|cache| cache.time);
    let reuse = match Reuse::of(status, &fields, time) {
        Reuse::Within(_) if status != StatusCode::FORBIDDEN => Reuse::Waiting,
        reuse => reuse,
    };
    let body = match status.as_u16() {
        // They have no body.
        204 | 205 | 304 => Bytes::new(),
        _ => Bytes::from(denied.body),
    };
    Ok(Checked {
        reuse,
        answered: Answered::Refused(Refused::new(status, &fields, body)),
        has_more: false,
    })
}

/// The lines of the fields with these names, and whether there are others. A field without a value
/// is none, as for Envoy.
fn selected(
    options: &[HeaderValueOption],
    names: &[HeaderName],
) -> Result<(HeaderMap, bool), CheckFault> {
    let mut lines = HeaderMap::new();
    let mut has_others = false;
    for line in options.iter().filter_map(|option| option.header.as_ref()) {
        let is_it = |name: &&HeaderName| name.as_str().eq_ignore_ascii_case(&line.key);
        let Some(name) = names.iter().find(is_it) else {
            has_others = true;
            continue;
        };
        let value = match line.raw_value.is_empty() {
            true => line.value.as_bytes(),
            false => &line.raw_value,
        };
        if value.is_empty() {
            continue;
        }
        if lines.len() >= MAX_RESPONSE_FIELDS {
            return Err(CheckFault::TooLarge);
        }
        let value = HeaderValue::from_bytes(value).map_err(|_| CheckFault::Malformed)?;
        lines.append(name, value);
    }
    Ok((lines, has_others))
}

#[cfg(test)]
mod tests;

//! Completes a response: its record, the edits of its route, and the fields of the gateway.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tollgate_core::decision::LimitFields;
use tollgate_core::refusal::RETRY_FIELDS;
use tollgate_core::time::Span;

use super::body::ResponseBody;
use crate::message::{Cors, Failure, X_REQUEST_ID, write_field};
use crate::server::HeadLines;
use crate::snapshot::Snapshot;
use crate::telemetry::{Record, TunnelBytes};

/// Adds the response to the record of a request. It comes `took` after the head of the request.
pub fn record_response(
    record: &mut Record,
    failure: Option<Failure>,
    took: Duration,
    response: &mut Response<ResponseBody>,
) {
    if let Some(failure) = failure {
        record.failed(failure.reason());
    } else if !response.body().is_local() {
        record.upstream_us = Some(Span::from(took).as_micros());
    }
    record.status = Some(response.status());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let tunnel = TunnelBytes::default();
        response.extensions_mut().insert(tunnel.clone());
        record.tunnel = Some(tunnel);
    }
}

/// Applies the edits of a route to the head of a response. `is_local` is whether the
/// gateway itself has made the response.
pub fn edit_response(
    snapshot: &Snapshot,
    route: Option<usize>,
    is_local: bool,
    headers: &mut HeaderMap,
) {
    let handling = route.map(|route| &snapshot.routes[route]);
    match handling.and_then(|handling| handling.changes.as_ref()) {
        Some(changes) if is_local => changes.response.complete(headers),
        Some(changes) => changes.response.apply(headers),
        None => {}
    }
}

/// Adds the fields about origins to a response of a route that answers scripts of other origins.
/// `allowed` is the allowed origin of its request. Returns the fields about limits, which only scripts
/// of this origin may read, and they only if `exposes`. Then they may read when to try again, too,
/// whichever part of the gateway says so.
pub fn add_origins(
    cors: &Cors,
    allowed: Option<HeaderValue>,
    exposes: bool,
    limits: LimitFields,
    headers: &mut HeaderMap,
) -> LimitFields {
    let is_allowed = allowed.is_some();
    cors.write(allowed, headers);
    if !is_allowed {
        return limits.unexposed();
    }
    for name in &RETRY_FIELDS {
        if exposes && headers.contains_key(name) && !limits.expose(name) {
            Cors::expose(name, headers);
        }
    }
    limits
}

/// Adds the gateway's own fields to those of a response. If the response has none that they would
/// replace or follow, they are written as lines of its head, if there are lines: that is faster.
pub fn add_fields(
    request_id: &HeaderValue,
    limits: LimitFields,
    lines: Option<&HeadLines>,
    headers: &mut HeaderMap,
) {
    let has_own = |headers: &HeaderMap| {
        headers.keys().any(|it| *it == X_REQUEST_ID || LimitFields::may_have(it))
    };
    match lines.filter(|_| limits.are_lines() && !has_own(headers)).and_then(HeadLines::open) {
        Some(mut head) => {
            write_field(X_REQUEST_ID.as_str(), request_id.as_bytes(), &mut head);
            limits.write_lines(&mut head);
        }
        None => {
            headers.insert(X_REQUEST_ID, request_id.clone());
            limits.write(headers);
        }
    }
}

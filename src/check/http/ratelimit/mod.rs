//! The rate limit service over HTTP: `/json` and `/healthcheck`, as envoyproxy/ratelimit has them
//! on its port for HTTP, for clients that cannot use gRPC.
//!
//! The service is that of `check.grpc`, with its domains and its counters. It is here only if it
//! is there.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod question;
mod reply;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ORIGIN};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tollgate_core::refusal::grpc::Code as GrpcCode;
use tollgate_core::time::monotonic;

use super::api::{Caller, Problem, json, read_body};
use crate::check::grpc::Readiness;
use crate::check::grpc::ratelimit::{Code, MAX_BYTES, RateLimitResponse, decide};
use crate::check::metrics::ServiceMetrics;
use crate::check::rls::InUse;
use crate::check::settings::HttpSettings;
use crate::gateway::Gateway;
use crate::server::ClientBody;
use crate::telemetry::RateLimitMetrics;

/// The rate limit service of `check.grpc`.
#[derive(Clone, Copy, Debug)]
pub struct RateLimitService<'s> {
    pub in_use: InUse<'s>,
    pub metrics: &'s ServiceMetrics,
    pub readiness: &'s Readiness,
}

/// What a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Json,
    Health,
}

impl Path {
    pub fn of(path: &str) -> Option<Self> {
        match path {
            "/json" => Some(Self::Json),
            "/healthcheck" => Some(Self::Health),
            _ => None,
        }
    }
}

impl RateLimitService<'_> {
    /// Answers one request.
    pub async fn answer(
        self,
        path: Path,
        gateway: &Gateway,
        settings: &HttpSettings,
        request: Request<ClientBody>,
    ) -> Response<Bytes> {
        match path {
            Path::Health => health(request.method(), self.readiness.is_ready()),
            Path::Json => {
                let begun = monotonic();
                let metrics = self.metrics.of(gateway);
                let answered = self.json(gateway, settings, metrics, request).await;
                metrics.called(begun.elapsed(), answered.is_err());
                match answered {
                    Ok(response) => json(status_of(&response), &reply::document(&response)),
                    Err(problem) => problem.into_response(),
                }
            }
        }
    }

    async fn json(
        self,
        gateway: &Gateway,
        settings: &HttpSettings,
        metrics: &RateLimitMetrics,
        request: Request<ClientBody>,
    ) -> Result<RateLimitResponse, Problem> {
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "use POST"));
        }
        // Clients of envoyproxy/ratelimit need not name the type of the body. Without this, any
        // page in a browser on this machine could ask.
        if head.headers.contains_key(ORIGIN) {
            return Err(Problem::forbidden("pages in browsers may not ask"));
        }
        Caller::of(settings, &head.headers)?.may_charge_all()?;
        let question = question::read(&read_body(body, MAX_BYTES).await?)?;
        let decided = decide(gateway, self.in_use, metrics, &question, None).await;
        decided.map_err(|failed| match failed.code {
            GrpcCode::Unavailable => Problem::new(StatusCode::SERVICE_UNAVAILABLE, failed.message),
            _ => Problem::bad_request(failed.message),
        })
    }
}

/// A code that the service does not know would be a fault of its own.
fn status_of(response: &RateLimitResponse) -> StatusCode {
    match Code::try_from(response.overall_code) {
        Ok(Code::Ok) => StatusCode::OK,
        Ok(Code::OverLimit) => StatusCode::TOO_MANY_REQUESTS,
        Ok(Code::Unknown) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Whether this node takes questions. It does until it stops, also without its store; but if the
/// configuration says so, only when it has limits.
fn health(method: &Method, is_ready: bool) -> Response<Bytes> {
    let (status, body) = match (method, is_ready) {
        (&Method::GET | &Method::HEAD, true) => (StatusCode::OK, "OK"),
        (&Method::GET | &Method::HEAD, false) => (StatusCode::INTERNAL_SERVER_ERROR, ""),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "use GET\n"),
    };
    let mut response = Response::new(Bytes::from_static(body.as_bytes()));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        fields.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

    use super::*;
    use crate::check::grpc::DESCRIPTORS;

    #[test]
    fn the_status_says_what_the_service_says() {
        let status = |overall_code| {
            status_of(&RateLimitResponse { overall_code, ..Default::default() }).as_u16()
        };
        assert_eq!([1, 2, 0, 3].map(status), [200, 429, 500, 500]);
    }

    #[test]
    fn a_node_that_stops_is_not_healthy() {
        let health = |method, is_stopping: bool| {
            let response = health(&method, !is_stopping);
            (response.status().as_u16(), response.into_body())
        };
        assert_eq!(health(Method::GET, false), (200, "OK".into()));
        assert_eq!(health(Method::HEAD, false).0, 200);
        assert_eq!(health(Method::GET, true), (500, "".into()));
        assert_eq!(health(Method::POST, false).0, 405);
    }

    fn message(name: &str) -> MessageDescriptor {
        let pool = DescriptorPool::decode(DESCRIPTORS).expect("they are descriptors");
        let name = format!("envoy.service.ratelimit.v3.{name}");
        pool.get_message_by_name(&name).expect("it is among them")
    }

    /// Another program reads the same of it, or finds a mistake, too.
    #[test]
    fn questions_are_read_as_by_another_program() {
        let descriptor = message("RateLimitRequest");
        for body in [
            r#"{}"#,
            r#"{"domain": "d", "hitsAddend": 7, "descriptors": [{"entries": [{"key": "k"}]}]}"#,
            r#"{"hits_addend": "7", "descriptors": [{}, {"hitsAddend": "18446744073709551615"}]}"#,
            r#"{"descriptors": [{"hits_addend": 0, "is_negative_hits": true, "limit": {}}]}"#,
            r#"{"descriptors": [{"limit": {"requests_per_unit": 3, "unit": "YEAR"}}]}"#,
            r#"{"descriptors": [{"limit": {"requestsPerUnit": 1e2, "unit": 3}}]}"#,
            r#"{"domain": null, "descriptors": null, "hits_addend": null}"#,
            r#"{"domain": "d", "hitsAddend": -1}"#,
            r#"{"hits_addend": 4294967296}"#,
            r#"{"hits_addend": 1.5}"#,
            r#"{"hits_addend": "x"}"#,
            r#"{"domain": 1}"#,
            r#"{"domains": "d"}"#,
            r#"{"descriptors": [{"limit": {"unit": "FORTNIGHT"}}]}"#,
            r#"{"descriptors": [{"is_negative_hits": "true"}]}"#,
            r#"{"descriptors": [7]}"#,
            r#"[]"#,
            r#"{"domain": "d"} x"#,
        ] {
            let mut reader = serde_json::Deserializer::from_str(body);
            let other = DynamicMessage::deserialize(descriptor.clone(), &mut reader);
            let other = other.ok().filter(|_| reader.end().is_ok());
            let own = question::read(body.as_bytes()).ok();
            assert_eq!(
                own.map(|it| it.encode_to_vec()),
                other.map(|it| it.encode_to_vec()),
                "{body}"
            );
        }
    }

    #[test]
    fn replies_are_written_as_by_another_program() {
        use crate::check::grpc::ratelimit::{
            DescriptorStatus, HeaderValue, ProtoDuration, RateLimit,
        };

        let descriptor = message("RateLimitResponse");
        let limit = RateLimit { requests_per_unit: 3, unit: 5, name: "n".to_owned() };
        let metadata = serde_json::json!({ "a": [null, 1.5, true, { "b": "c" }] });
        let full = RateLimitResponse {
            overall_code: 2,
            statuses: vec![
                DescriptorStatus {
                    code: 2,
                    current_limit: Some(limit),
                    limit_remaining: 7,
                    duration_until_reset: Some(ProtoDuration { seconds: 3600, nanos: 0 }),
                },
                DescriptorStatus {
                    current_limit: Some(RateLimit::default()),
                    ..Default::default()
                },
            ],
            response_headers_to_add: vec![HeaderValue {
                key: "k".to_owned(),
                value: "v".to_owned(),
                raw_value: vec![255, 0, 7],
            }],
            request_headers_to_add: vec![HeaderValue::default()],
            raw_body: vec![1, 2, 3, 4],
            dynamic_metadata: metadata.as_object().map(Into::into),
        };
        for response in [full, RateLimitResponse::default()] {
            let bytes = response.encode_to_vec();
            let other = DynamicMessage::decode(descriptor.clone(), &bytes[..]);
            let other = serde_json::to_value(other.expect("it is one")).expect("it is JSON");
            assert_eq!(reply::document(&response), other);
        }
    }
}

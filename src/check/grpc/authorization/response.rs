//! From the answer over HTTP to that of the service.

use http::header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body_util::BodyExt as _;

use crate::gateway::ResponseBody;
use crate::grpc::authorization::{
    CheckResponse, DeniedHttpResponse, HeaderAppendAction, HeaderValueOption, HttpResponse,
    HttpStatus, OkHttpResponse, Status,
};
use crate::grpc::core::HeaderValue;

/// The answer. What ends with the response, ends here.
pub async fn of(response: Response<ResponseBody>) -> CheckResponse {
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        let response_headers_to_add = options(&head.headers, is_told);
        let ok = OkHttpResponse { response_headers_to_add, ..OkHttpResponse::default() };
        return CheckResponse {
            status: Some(Status::default()),
            http_response: Some(HttpResponse::Ok(ok)),
        };
    }
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let denied = DeniedHttpResponse {
        status: Some(HttpStatus { code: head.status.as_u16().into() }),
        headers: options(&head.headers, is_for_client),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let outcome = head.headers.get("x-tollgate-outcome").and_then(|it| it.to_str().ok());
    let message = outcome.unwrap_or("refused").to_owned();
    CheckResponse {
        status: Some(Status { code: code(head.status), message }),
        http_response: Some(HttpResponse::Denied(denied)),
    }
}

/// Whether the client of a request that passes is told this field. All others belong to the
/// backend.
fn is_told(name: &HeaderName) -> bool {
    name == RETRY_AFTER
        || ["ratelimit", "ratelimit-policy"].contains(&name.as_str())
        || ["x-ratelimit-", "anthropic-ratelimit-"].iter().any(|it| name.as_str().starts_with(it))
}

/// Whether the client of a request that is refused gets this field: it belongs neither to the
/// connection nor to Envoy.
fn is_for_client(name: &HeaderName) -> bool {
    ![CONNECTION, CONTENT_LENGTH].contains(name) && !name.as_str().starts_with("x-tollgate-")
}

/// The fields for the client. They replace those of the backend: Envoy would otherwise append
/// them, and a client would read two numbers.
fn options(headers: &HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) -> Vec<HeaderValueOption> {
    let option = |name: &HeaderName| {
        let lines: Vec<_> = headers.get_all(name).iter().map(|line| line.as_bytes()).collect();
        let value = String::from_utf8_lossy(&lines.join(&b", "[..])).into_owned();
        let header = HeaderValue { key: name.as_str().to_owned(), value, raw_value: Vec::new() };
        HeaderValueOption {
            header: Some(header),
            append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        }
    };
    headers.keys().filter(|name| is_meant(name)).map(option).collect()
}

/// The code of gRPC. Envoy only reads whether it is that of success.
const fn code(status: StatusCode) -> i32 {
    match status.as_u16() {
        401 => 16,
        403 => 7,
        404 => 5,
        429 => 8,
        503 => 14,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(status: u16, fields: &[(&'static str, &str)], body: &str) -> CheckResponse {
        let mut response = Response::new(ResponseBody::local(body.to_owned().into()));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in fields {
            response.headers_mut().append(*name, value.parse().unwrap());
        }
        of(response).await
    }

    fn fields(options: &[HeaderValueOption]) -> Vec<(&str, &str)> {
        assert!(options.iter().all(|it| it.append_action == 2));
        let headers = options.iter().filter_map(|it| it.header.as_ref());
        headers.map(|it| (&*it.key, &*it.value)).collect()
    }

    #[tokio::test]
    async fn a_request_that_passes_gets_the_fields_about_limits_alone() {
        let told = [
            ("x-ratelimit-limit", "3"),
            ("ratelimit", "\"a\";r=1"),
            ("anthropic-ratelimit-requests-limit", "3"),
            ("cache-control", "no-store"),
            ("x-request-id", "7"),
            ("x-tollgate-outcome", "admitted"),
        ];
        let answer = answered(200, &told, "").await;
        assert_eq!(answer.status, Some(Status::default()));
        let Some(HttpResponse::Ok(ok)) = answer.http_response else { panic!("it is refused") };
        assert_eq!(fields(&ok.response_headers_to_add), told[..3]);
    }

    #[tokio::test]
    async fn a_refusal_has_its_status_fields_and_body() {
        let told = [
            ("retry-after", "7"),
            ("content-length", "4"),
            ("vary", "a"),
            ("vary", "b"),
            ("x-tollgate-outcome", "refused"),
        ];
        for (status, expected) in [(429, 8), (503, 14), (403, 7), (401, 16), (404, 5), (400, 3)] {
            let answer = answered(status, &told, "body").await;
            let status_told = answer.status.map(|it| (it.code, it.message));
            assert_eq!(status_told, Some((expected, "refused".to_owned())), "{status}");
            let Some(HttpResponse::Denied(denied)) = answer.http_response else {
                panic!("it passes")
            };
            assert_eq!(denied.status, Some(HttpStatus { code: status.into() }));
            assert_eq!(fields(&denied.headers), [("retry-after", "7"), ("vary", "a, b")]);
            assert_eq!(denied.body, "body");
        }
    }
}

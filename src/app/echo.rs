//! `builtin:echo`: a backend inside the process, to try the gateway on a machine without
//! other software. It responds with the request that it received.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::{Map, Value, json};
use tower::Service;

use crate::server::ClientBody;

/// The length of a larger body is not reported.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A service that responds to each request with its method, target, fields and the length
/// of its body, as JSON.
pub fn service()
-> impl Service<Request<ClientBody>, Response = Response<Full<Bytes>>, Error = Infallible> + Clone {
    tower::service_fn(|request: Request<ClientBody>| async {
        let (head, body) = request.into_parts();
        let body_bytes = Limited::new(body, MAX_BODY_BYTES)
            .collect()
            .await
            .map(|body| body.to_bytes().len())
            .ok();
        let answer = json!({
            "method": head.method.as_str(),
            "path": head.uri.to_string(),
            "headers": fields(&head.headers),
            "body_bytes": body_bytes,
        });
        let mut text = format!("{answer:#}");
        text.push('\n');
        let mut response = Response::new(Full::from(text));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        Ok(response)
    })
}

/// The fields by name. Fields with the same name are joined (RFC 9110, section 5.2).
fn fields(headers: &HeaderMap) -> Map<String, Value> {
    headers
        .keys()
        .map(|name| {
            let values: Vec<_> = headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            (name.to_string(), Value::from(values.join(", ")))
        })
        .collect()
}

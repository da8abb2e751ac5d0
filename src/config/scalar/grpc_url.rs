//! The address of a server that is asked over gRPC: `h2c://127.0.0.1:9000`.

use std::str::FromStr;

use tollgate_core::scalar::ScalarError;

use super::endpoint::Endpoint;
use super::text::written_as_text;
use crate::proxy::Target;

const ADVICE: &str = "write h2c://host:port, or https://host:port for TLS";

/// Where a server is asked over gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcUrl(pub Target);

written_as_text!(
    GrpcUrl, text GRPC_URL,
    "The address of a server that is asked over gRPC: h2c://host:port, or https://host:port with TLS",
    "h2c://127.0.0.1:9000",
    "https://auth.example.com"
);

impl FromStr for GrpcUrl {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if !["h2c://", "https://"].iter().any(|scheme| text.starts_with(scheme)) {
            let message = "a server is asked over gRPC with h2c or https";
            return Err(ScalarError::new(message, ADVICE));
        }
        let parsed = text.parse::<Endpoint>();
        let parsed = parsed.map_err(|error| match error.message.as_str() {
            "an endpoint has no path" => {
                let message = "the address of a service has no path";
                ScalarError::new(message, "write the host and port only")
            }
            _ => ScalarError::new(error.message, ADVICE),
        });
        parsed.map(|Endpoint(target)| Self(target))
    }
}

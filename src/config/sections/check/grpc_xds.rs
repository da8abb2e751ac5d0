//! `check.grpc.xds`: the server that gives the limits of the rate limit service.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::check::XdsSettings;
use crate::check::rls::RateLimits;
use crate::config::field::{Entries, Field};
use crate::config::node::TextSpan;
use crate::config::scalar::{GrpcUrl, Size};
use crate::config::sections::context::Context;
use crate::config::sections::upstreams::tls::RawUpstreamTls;
use crate::proxy::Target;

const MAX_MESSAGE: RangeInclusive<u64> = 64 * 1024..=1024 * 1024 * 1024;
/// Four times as much as the largest message that Envoy Gateway sends by default.
const USUAL_MAX_MESSAGE: usize = 64 * 1024 * 1024;
/// The id of a node in envoyproxy/ratelimit, unless it is set.
const USUAL_NODE: &str = "default";
const MAX_NODE_BYTES: usize = 256;
const MAX_METADATA: usize = 64;

/// A server that gives the limits instead of files, by the protocol xDS: it is asked for
/// `ratelimit.config.ratelimit.v3.RateLimitConfig` on one stream. See docs/envoy-gateway.md.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "xds", default)]
#[schemars(deny_unknown_fields, extend("required" = ["server"]))]
pub struct RawXds {
    /// The address of the server.
    #[schemars(example = &"https://envoy-gateway:18001")]
    server: Field<GrpcUrl>,
    /// The certificates for the connection. Paths name files in PEM format.
    #[schemars(extend(
        "x-default" = "the authorities that the system trusts, and no certificate for the gateway"
    ))]
    tls: Field<RawUpstreamTls>,
    /// The id by which the server knows this node.
    #[schemars(extend("default" = "default"))]
    #[schemars(example = &"envoy-ratelimit")]
    node: Field<String>,
    /// What this node tells the server about itself: names and texts.
    #[schemars(extend("x-default" = "nothing"))]
    #[schemars(example = serde_json::json!({ "cluster": "east" }))]
    metadata: Field<Entries<String>>,
    /// The largest message that the server may send, from 64KiB to 1GiB.
    #[schemars(extend("default" = "64MiB"))]
    max_message: Field<Size>,
    /// Whether this node says that it is not ready until the server has told the limits. If not, it is
    /// ready at once. In both cases calls fail until then.
    #[schemars(extend("default" = true))]
    wait: Field<bool>,
}

impl RawXds {
    /// The settings of the section, which is written at `span`.
    pub fn compile(
        &self,
        span: TextSpan,
        limits: &RateLimits,
        cx: &Context<'_>,
    ) -> Option<XdsSettings> {
        let advice = "like server: https://envoy-gateway:18001";
        cx.required(&self.server, span, "\"xds\" has no \"server\"", advice);
        let max_message = self
            .max_message
            .given()
            .and_then(|size| cx.within(size.value.0, size.span, "max_message", MAX_MESSAGE));
        let max_bytes = max_message.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        let node = self.node(cx);
        let metadata = self.metadata(span, cx);
        let GrpcUrl(server) = self.server.value()?;
        let is_encrypted = matches!(server, Target::Https(..));
        let tls = RawUpstreamTls::compile(&self.tls, is_encrypted, span, cx);
        Some(XdsSettings {
            server: server.clone(),
            tls: if is_encrypted { Some(tls?) } else { None },
            node,
            metadata,
            max_bytes: max_bytes.unwrap_or(USUAL_MAX_MESSAGE),
            wait: self.wait.copied().unwrap_or(true),
            merge_domains: limits.switches.merge_domains,
            own_domains: limits.native.keys().cloned().collect(),
        })
    }

    fn node(&self, cx: &Context<'_>) -> String {
        let Some(node) = self.node.given() else { return USUAL_NODE.to_owned() };
        if node.value.is_empty() || node.value.len() > MAX_NODE_BYTES {
            let message = format!("\"node\" has from 1 to {MAX_NODE_BYTES} bytes");
            cx.error(node.span, &message, "like node: envoy-ratelimit");
        }
        node.value.clone()
    }

    fn metadata(&self, span: TextSpan, cx: &Context<'_>) -> Vec<(String, String)> {
        let entries = self.metadata.entries();
        if entries.len() > MAX_METADATA {
            let message = format!("there are more than {MAX_METADATA} entries of \"metadata\"");
            cx.error(self.metadata.span().unwrap_or(span), &message, "leave some out");
        }
        let pairs = entries
            .iter()
            .filter_map(|(name, value)| Some((name.value.clone(), value.given()?.value.clone())));
        pairs.collect()
    }
}

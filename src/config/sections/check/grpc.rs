//! `check.grpc`: questions over gRPC.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::askers::Askers;
use super::grpc_limits::{RawEnvoy, RawLimits};
use super::grpc_rules::RawNativeRule;
use super::grpc_xds::RawXds;
use crate::check::rls::Dialect;
use crate::check::{GrpcSettings, RpcServices};
use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::scalar::{self, Cidr, Period};
use crate::config::sections::context::Context;
use crate::config::sections::listeners::tls::RawListenerTls;
use crate::config::sections::references::References;
use crate::config::words::{Word, words};
use crate::server::ListenerSettings;

/// How long a connection takes calls.
const AGE: Duration = Duration::from_secs(3600);

/// The listener for questions over gRPC.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "check grpc", default)]
#[schemars(deny_unknown_fields, extend("required" = ["address"]))]
pub struct RawCheckGrpc {
    /// An IP address with a port, or a Unix socket.
    #[schemars(example = &"127.0.0.1:9903")]
    pub address: Field<scalar::ListenAddress>,
    /// TLS for the connections of this listener.
    #[schemars(extend("x-default" = "no TLS"))]
    tls: Field<RawListenerTls>,
    /// The addresses of the proxies and services that may ask. All others are refused with
    /// PERMISSION_DENIED.
    #[schemars(extend("x-default" = "those of this machine; with `tls.client_ca`, all"))]
    #[schemars(example = ["10.0.0.0/8"])]
    trust: List<Cidr>,
    /// The services that it serves.
    #[schemars(extend("x-default" = "all"))]
    #[schemars(example = ["ratelimit"])]
    services: List<Word<RpcService>>,
    /// Whether tools such as grpcurl may ask which services there are, and what their messages
    /// contain.
    #[schemars(extend("default" = false))]
    reflection: Field<bool>,
    /// After this time a connection takes no more calls, so that its client connects again and may
    /// then reach another worker. It varies by a tenth.
    #[schemars(extend("default" = "1h"))]
    max_connection_age: Field<Period>,
    /// A configuration directory of envoyproxy/ratelimit, whose files the rate limit service reads
    /// unchanged.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"ratelimit/")]
    envoy_config: Field<String>,
    /// A server that gives the limits instead of files, by the protocol xDS, such as Envoy Gateway.
    #[schemars(extend("x-default" = "none"))]
    xds: Field<RawXds>,
    /// How the limits of `envoy_config` and `xds` apply.
    envoy: Field<RawEnvoy>,
    /// Domains of the rate limit service, and the policies that judge their descriptors. The first
    /// rule that matches a descriptor applies.
    #[schemars(extend("x-default" = "none"))]
    domains: Field<Entries<Vec<Field<RawNativeRule>>>>,
    /// The header fields that responses of the rate limit service add. Envoy writes those with
    /// names in `x-ratelimit` itself.
    #[schemars(extend("x-default" = "ietf and retry_after"))]
    #[schemars(example = ["ietf", "retry_after"])]
    headers: List<Word<Dialect>>,
}

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RpcService {
    RateLimit,
    Authorization,
}

words! {
    /// A service for gRPC.
    RpcService as "service" {
        /// The rate limit service of Envoy, `envoy.service.ratelimit.v3.RateLimitService`.
        "ratelimit" => RpcService::RateLimit,
        /// The authorization service of Envoy, `envoy.service.auth.v3.Authorization`.
        "authorization" => RpcService::Authorization,
    }
}

impl RawCheckGrpc {
    /// The settings of the listener at `address`.
    pub fn compile(
        &self,
        address: &Spanned<scalar::ListenAddress>,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> Option<GrpcSettings> {
        let askers = Askers { address, trust: &self.trust, tls: &self.tls, needs_token: false };
        cx.not_empty(&self.services, "there are no services", "like services: [ratelimit]");
        let serves = |service| {
            let named =
                || self.services.items().any(|Spanned { value: Word(it), .. }| *it == service);
            self.services.is_absent() || named()
        };
        let mut listener = askers.listener(ListenerSettings::new, cx);
        let age = cx.timeout(&self.max_connection_age, "max_connection_age", AGE);
        listener.timeouts.age = Some(age);
        let rate_limits = RawLimits {
            directory: &self.envoy_config,
            has_server: !self.xds.is_absent(),
            envoy: &self.envoy,
            domains: &self.domains,
            headers: &self.headers,
        }
        .compile(known, cx);
        let xds = self.xds.given().and_then(|it| it.value.compile(it.span, &rate_limits, cx));
        self.check_xds(cx);
        Some(GrpcSettings {
            listener,
            services: RpcServices {
                ratelimit: serves(RpcService::RateLimit),
                authorization: serves(RpcService::Authorization),
            },
            reflection: self.reflection.copied().unwrap_or(false),
            rate_limits,
            xds: xds.map(Arc::new),
        })
    }

    /// Limits come from one place.
    fn check_xds(&self, cx: &Context<'_>) {
        let Some(span) = self.xds.span() else { return };
        if !self.envoy_config.is_absent() {
            let message = "\"xds\" cannot be combined with \"envoy_config\"";
            cx.error(span, message, "write one of them");
        }
        let serves = |it: &Spanned<Word<RpcService>>| it.value.0 == RpcService::RateLimit;
        if !self.services.is_absent() && !self.services.items().any(serves) {
            let message = "\"xds\" has no effect without the service ratelimit";
            cx.error(span, message, "add it to \"services\", or leave xds out");
        }
    }
}

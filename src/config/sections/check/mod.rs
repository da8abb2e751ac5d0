//! `check`: the listeners that tell other proxies and services whether a request may pass.

pub mod asked;
pub mod askers;
pub mod grpc;
pub mod grpc_limits;
pub mod grpc_rules;
pub mod grpc_xds;
pub mod http;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::check::CheckSettings;
use crate::config::field::{Either, Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar;
use crate::config::sections::context::Context;
use crate::config::sections::listeners::overlap;
use crate::config::sections::references::References;
use crate::server::ListenerSettings;
use grpc::RawCheckGrpc;
use http::RawCheckHttp;

/// Listeners that tell other proxies and services whether a request may pass.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "check", default)]
#[schemars(deny_unknown_fields, extend("minProperties" = 1))]
pub struct RawCheck {
    /// The listener for questions over HTTP: an address, or all of its settings.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"127.0.0.1:9902")]
    http: Field<Either<scalar::ListenAddress, RawCheckHttp>>,
    /// The listener for questions over gRPC: an address, or all of its settings.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"127.0.0.1:9903")]
    grpc: Field<Either<scalar::ListenAddress, RawCheckGrpc>>,
}

/// The settings of the section. `taken` are the gateway's own listeners.
pub fn compile(
    raw: &Field<RawCheck>,
    taken: &[ListenerSettings],
    known: &References<'_>,
    cx: &Context<'_>,
) -> CheckSettings {
    let Some(Spanned { value: raw, span, .. }) = raw.given() else {
        return CheckSettings::default();
    };
    if raw.http.is_absent() && raw.grpc.is_absent() {
        cx.error(*span, "\"check\" has no listener", "like http: 127.0.0.1:9902");
    }
    let http = raw.http.given().and_then(|http| match &http.value {
        Either::Short(address) => {
            RawCheckHttp::default().compile(http.span, &http.with(address.clone()), cx)
        }
        Either::Long(long) => {
            let address = address(&long.address, http.span, cx)?;
            long.compile(http.span, address, cx)
        }
    });
    let grpc = raw.grpc.given().and_then(|grpc| match &grpc.value {
        Either::Short(address) => {
            RawCheckGrpc::default().compile(&grpc.with(address.clone()), known, cx)
        }
        Either::Long(long) => {
            let address = address(&long.address, grpc.span, cx)?;
            long.compile(address, known, cx)
        }
    });
    let settings = CheckSettings { http: http.map(Arc::new), grpc: grpc.map(Arc::new) };
    let spans = [raw.http.span(), raw.grpc.span()].into_iter().flatten();
    let mut taken: Vec<&ListenerSettings> = taken.iter().collect();
    for (listener, span) in settings.listeners().zip(spans) {
        if taken.iter().any(|other| overlap(&other.address, &listener.address)) {
            cx.error(span, "the address is taken by another listener", "choose another one");
        }
        taken.push(listener);
    }
    settings
}

fn address<'f>(
    field: &'f Field<scalar::ListenAddress>,
    owner: TextSpan,
    cx: &Context<'_>,
) -> Option<&'f Spanned<scalar::ListenAddress>> {
    cx.required(field, owner, "the listener has no \"address\"", "like address: 127.0.0.1:9902");
    field.given()
}

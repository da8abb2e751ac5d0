//! `admin`: the listener through which operators see and change a running gateway.

pub mod credentials;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::admin::{
    AdminSettings, ClientSettings, ProbeSettings, Role, TokenDigest, TokenSettings,
};
use crate::config::field::{Field, List, Spanned};
use crate::config::model::AdminAccess;
use crate::config::node::TextSpan;
use crate::config::scalar;
use crate::config::sections::context::Context;
use crate::config::sections::listeners::tls::RawListenerTls;
use crate::server::{
    Callers, Http2Settings, ListenAddress, ListenerSettings, ListenerTimeouts, WhenFull,
};
use credentials::{RawAdminClient, RawAdminToken, Tokens};

/// Only the user of the gateway and root may connect.
const PRIVATE: u32 = 0o600;
/// Every user may connect, and the number of the user is compared with `uids`.
const SHARED: u32 = 0o666;
const MAX_CONNECTIONS: usize = 64;
const MAX_STREAMS: u32 = 16;
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// For TLS, and then for each head. Connections without a credential end soon.
const HANDSHAKE: Duration = Duration::from_secs(5);
const REQUEST_HEAD: Duration = Duration::from_secs(2);
const REQUEST_BODY: Duration = Duration::from_secs(10);
/// The list of allowed hosts is searched for each call.
const MAX_HOSTS: usize = 64;
const MAX_UIDS: usize = 64;
/// The name of a token that no file has, for the audit log.
const NAME_OF_TERMINAL: &str = "terminal";

/// The listener through which operators see and change a running gateway. Over TCP, clients need
/// a token or a certificate. See docs/admin.md.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "admin", default)]
#[schemars(deny_unknown_fields, extend("minProperties" = 1))]
pub struct RawAdmin {
    /// An IP address with a port, or a Unix socket. It may be left out if there is only a `probe`. A
    /// change needs a restart.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"127.0.0.1:9901")]
    address: Field<scalar::ListenAddress>,
    /// The names that requests may have in Host, besides those of the loopback and the address of
    /// the listener.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["gateway.internal"])]
    hosts: List<String>,
    /// A token with the role operate. It has at least 16 characters.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"${TOLLGATE_ADMIN_TOKEN}")]
    token: Field<String>,
    /// Tokens with names and roles.
    #[schemars(extend("x-default" = "none"))]
    tokens: List<RawAdminToken>,
    /// TLS for the connections of this listener.
    #[schemars(extend("x-default" = "no TLS"))]
    tls: Field<RawListenerTls>,
    /// The clients that are recognised by their certificates. They need `tls.client_ca`.
    #[schemars(extend("x-default" = "none"))]
    clients: List<RawAdminClient>,
    /// The numbers of the users whose processes may use the Unix socket, besides root and the user
    /// of the gateway.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = [1000])]
    uids: List<u64>,
    /// A second listener, which tells without a token whether the gateway works.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "address": "0.0.0.0:9910" }))]
    probe: Field<RawProbe>,
    /// Whether the listener may have an address that other machines can reach although it has no
    /// TLS. Then tokens can be read on the way.
    #[schemars(extend("default" = false))]
    insecure: Field<bool>,
    /// Whether calls may write the configuration file: `PUT /v1/config?write=true`, and patches
    /// with `persist`.
    #[schemars(extend("default" = false))]
    write_config: Field<bool>,
    /// Whether whole keys of clients are kept in memory, and shown to operators that ask for them
    /// (`?reveal=true`). They may be secrets of clients.
    #[schemars(extend("default" = false))]
    reveal_keys: Field<bool>,
}

/// A listener that tells without a token whether the gateway works: /healthz and /readyz.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "probe", default)]
#[schemars(deny_unknown_fields, extend("required" = ["address"]))]
struct RawProbe {
    /// An IP address with a port, or a Unix socket. A change needs a restart.
    #[schemars(example = &"0.0.0.0:9910")]
    address: Field<scalar::ListenAddress>,
    /// Whether it also serves /metrics.
    #[schemars(extend("default" = false))]
    metrics: Field<bool>,
}

/// The section, if it is given. `taken` are the other listeners.
pub fn compile(
    raw: &Field<RawAdmin>,
    taken: &[&ListenerSettings],
    cx: &Context<'_>,
) -> Option<AdminSettings> {
    let Spanned { value: raw, span, .. } = raw.given()?;
    if raw.is_probe_alone() {
        let probe = raw.probe.given()?;
        if let Some(address) = probe.value.address.given() {
            check_taken(address, taken, cx);
        }
        return probe.value.compile(probe.span, cx).map(alone);
    }
    let message = "the admin listener has no \"address\"";
    let advice = "write one, like address: 127.0.0.1:9901";
    cx.required(&raw.address, *span, message, advice);
    let tokens = Tokens::compile(&raw.token, &raw.tokens, cx);
    let probe = raw.probe.given().and_then(|probe| probe.value.compile(probe.span, cx));
    let address = raw.address.given()?;
    raw.check_addresses(address, taken, cx);
    raw.check_credentials(*span, address, cx);
    let uids = raw.uids(cx);
    let mut listener = listener(address.value.0.clone());
    listener.socket_mode = Some(if uids.is_empty() { PRIVATE } else { SHARED });
    if listener.address.tcp().is_none() {
        listener.callers = Callers::Users(uids.clone());
    }
    listener.tls = raw.tls.given().and_then(|tls| tls.value.compile(tls.span, cx));
    Some(AdminSettings {
        listener,
        hosts: raw.hosts(cx),
        tokens: tokens.0,
        clients: raw.clients(cx),
        uids,
        probe,
        write_config: raw.write_config.copied().unwrap_or(false),
        reveal_keys: raw.reveal_keys.copied().unwrap_or(false),
        is_probe_alone: false,
        is_temporary: false,
    })
}

/// A listener for health checks alone.
fn alone(probe: ProbeSettings) -> AdminSettings {
    AdminSettings {
        listener: listener(probe.address.clone()),
        hosts: Vec::new(),
        tokens: Vec::new(),
        clients: Vec::new(),
        uids: Vec::new(),
        probe: Some(probe),
        write_config: false,
        reveal_keys: false,
        is_probe_alone: true,
        is_temporary: false,
    }
}

/// An admin listener that no file has, for the terminal that starts the process. `token` allows
/// everything.
pub fn temporary(address: SocketAddr, token: &str) -> AdminSettings {
    let token = TokenSettings {
        name: NAME_OF_TERMINAL.to_owned(),
        role: Role::Operate,
        teams: crate::api_keys::Teams::All,
        digest: TokenDigest::of(token.as_bytes()),
        expires: None,
    };
    AdminSettings {
        listener: listener(ListenAddress::Tcp(address)),
        hosts: Vec::new(),
        tokens: vec![token],
        clients: Vec::new(),
        uids: Vec::new(),
        probe: None,
        write_config: false,
        reveal_keys: false,
        is_probe_alone: false,
        is_temporary: true,
    }
}

/// The listener with the bounds of the admin API.
fn listener(address: ListenAddress) -> ListenerSettings {
    ListenerSettings {
        max_connections: MAX_CONNECTIONS,
        when_full: WhenFull::CloseIdle,
        max_head_bytes: MAX_HEAD_BYTES,
        http2: Some(Http2Settings { max_streams: MAX_STREAMS, ..Http2Settings::default() }),
        timeouts: ListenerTimeouts {
            handshake: HANDSHAKE,
            request_head: REQUEST_HEAD,
            request_body: REQUEST_BODY,
            ..ListenerTimeouts::default()
        },
        ..ListenerSettings::new(address)
    }
}

impl RawAdmin {
    /// How a command reaches the listener, as far as the section says it.
    pub fn access(&self) -> Option<AdminAccess> {
        let given = |token: &Field<String>| token.given().map(|it| it.value.clone());
        let probe = self.probe.value().and_then(|probe| probe.address.value());
        let address = self.address.value().or(probe.filter(|_| self.is_probe_alone()));
        Some(AdminAccess {
            address: address?.0.clone(),
            is_encrypted: !self.tls.is_absent(),
            token: given(&self.token).or_else(|| credentials::strongest(&self.tokens)),
            probe: self.probe.value().and_then(|it| it.address.value()).map(|it| it.0.clone()),
        })
    }

    /// Whether nothing but the listener for health checks is written.
    fn is_probe_alone(&self) -> bool {
        let Self { address, hosts, token, tokens, tls, clients, uids, probe, insecure, .. } = self;
        let Self { write_config, reveal_keys, .. } = self;
        let switches = [insecure, write_config, reveal_keys].iter().all(|it| it.is_absent());
        let lists = hosts.is_absent() && tokens.is_absent() && clients.is_absent();
        let rest = token.is_absent() && tls.is_absent() && uids.is_absent();
        !probe.is_absent() && address.is_absent() && switches && lists && rest
    }

    /// Two listeners cannot have the same address, and a token must not be sent in the clear.
    fn check_addresses(
        &self,
        address: &Spanned<scalar::ListenAddress>,
        taken: &[&ListenerSettings],
        cx: &Context<'_>,
    ) {
        let probe = self.probe.value().and_then(|probe| probe.address.given());
        for wanted in [Some(address), probe].into_iter().flatten() {
            check_taken(wanted, taken, cx);
        }
        if let Some(probe) = probe
            .filter(|it| crate::config::sections::listeners::overlap(&it.value.0, &address.value.0))
        {
            let message = "the address is taken by the admin listener";
            cx.error(probe.span, message, "choose another one");
        }
        let is_exposed = address.value.0.tcp().is_some_and(|it| !is_loopback(it));
        if is_exposed && self.tls.is_absent() && self.insecure.copied() != Some(true) {
            let message = "other machines can reach this address, and without \"tls\" they can \
                           read the tokens";
            let advice = "listen on 127.0.0.1, add tls, or write insecure: true";
            cx.error(address.span, message, advice);
        }
    }

    fn check_credentials(
        &self,
        span: TextSpan,
        address: &Spanned<scalar::ListenAddress>,
        cx: &Context<'_>,
    ) {
        let by_certificate = !self.clients.is_absent();
        let by_token = !self.token.is_absent() || !self.tokens.is_absent();
        if address.value.0.tcp().is_some() {
            if !by_token && !by_certificate {
                let message = "the admin listener has no credential";
                let advice = "add token: \"${TOLLGATE_ADMIN_TOKEN}\", or listen on a Unix socket";
                cx.error(span, message, advice);
            }
            let advice = "leave them out, or listen on unix:/path";
            if let Some(at) = self.uids.span() {
                cx.error(at, "\"uids\" have no effect over TCP", advice);
            }
            let has_ca = self.tls.value().is_some_and(RawListenerTls::verifies_clients);
            if let Some(at) = self.clients.span().filter(|_| !self.tls.is_broken() && !has_ca) {
                let advice = "add tls: { certificates: [...], client_ca: ca.pem }";
                cx.error(at, "\"clients\" have no effect without \"tls.client_ca\"", advice);
            }
            return;
        }
        let advice = "leave it out: the user of the client's process counts";
        let spans = [
            ("token", self.token.span()),
            ("tokens", self.tokens.span()),
            ("clients", self.clients.span()),
            ("tls", self.tls.span()),
        ];
        for (name, span) in spans {
            if let Some(span) = span {
                let message = format!("\"{name}\" has no effect over a Unix socket");
                cx.error(span, &message, advice);
            }
        }
    }

    fn hosts(&self, cx: &Context<'_>) -> Vec<String> {
        cx.at_most(&self.hosts, "hosts", MAX_HOSTS);
        let checked = self.hosts.items().filter_map(|host| {
            let name = host.value.trim_start_matches('[').trim_end_matches(']');
            let is_good = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let is_address = name.parse::<IpAddr>().is_ok();
            if !is_address && (name.is_empty() || !name.chars().all(is_good)) {
                let message = format!("\"{}\" is not the name of a host", host.shown());
                cx.error(host.span, &message, "write a name without scheme, port and star");
                return None;
            }
            Some(name.to_ascii_lowercase())
        });
        checked.collect()
    }

    fn clients(&self, cx: &Context<'_>) -> Vec<ClientSettings> {
        let mut clients: Vec<ClientSettings> = Vec::new();
        for raw in self.clients.items() {
            let Some(client) = raw.value.compile(raw.span, cx) else { continue };
            if clients.iter().any(|other| other.subject == client.subject) {
                cx.error(raw.span, "two clients have the same \"subject\"", "remove one of them");
            }
            clients.push(client);
        }
        clients
    }

    fn uids(&self, cx: &Context<'_>) -> Vec<u32> {
        cx.at_most(&self.uids, "uids", MAX_UIDS);
        let range = 0..=u64::from(u32::MAX);
        let uid = |raw: &Spanned<u64>| cx.within(raw.value, raw.span, "uids", range.clone());
        self.uids.items().filter_map(uid).filter_map(|uid| u32::try_from(uid).ok()).collect()
    }
}

impl RawProbe {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<ProbeSettings> {
        let advice = "write one, like address: 0.0.0.0:9910";
        let address =
            cx.required(&self.address, span, "the probe has no \"address\"", advice)?.0.clone();
        Some(ProbeSettings { address, metrics: self.metrics.copied().unwrap_or(false) })
    }
}

/// Reports an address that another listener has.
fn check_taken(
    wanted: &Spanned<scalar::ListenAddress>,
    taken: &[&ListenerSettings],
    cx: &Context<'_>,
) {
    let is_same = |other: &&ListenerSettings| {
        crate::config::sections::listeners::overlap(&other.address, &wanted.value.0)
    };
    if taken.iter().any(is_same) {
        let message = "the address is taken by another listener";
        cx.error(wanted.span, message, "choose another one");
    }
}

/// Whether only this machine reaches the address.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

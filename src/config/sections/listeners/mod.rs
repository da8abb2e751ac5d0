//! `listeners`: the addresses that the gateway listens on.

pub mod tls;

use std::ops::RangeInclusive;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Either, Field, List};
use crate::config::node::TextSpan;
use crate::config::scalar::{self, Period, Size};
use crate::config::sections::context::Context;
use crate::server::{Http2Settings, ListenAddress, ListenerSettings, ListenerTimeouts};
use tls::RawListenerTls;

/// Every worker opens a socket for each listener.
const MAX_LISTENERS: usize = 256;
const MAX_CONNECTIONS: RangeInclusive<u64> = 1..=10_000_000;
/// From the head that every client sends to the largest that fits the buffers of a worker.
const HEAD_BYTES: RangeInclusive<u64> = 1024..=1024 * 1024;
/// From a size that most targets fit to the most that the HTTP library can hold.
const TARGET_BYTES: RangeInclusive<usize> = 256..=ListenerSettings::LONGEST_TARGET;
const MAX_HEADERS: RangeInclusive<u64> = 1..=10_000;
/// The largest number that a stream can have.
const MAX_STREAMS: RangeInclusive<u64> = 1..=0x7fff_ffff;
/// Frames that a client may send in one second.
const MAX_FRAMES: RangeInclusive<u64> = 1..=1_000_000_000;

/// An address to listen on, and the bounds of its connections.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "listener", default)]
#[schemars(deny_unknown_fields, extend("required" = ["address"]))]
pub struct RawListener {
    /// An IP address with a port, or a Unix socket. Two listeners cannot have the same address.
    address: Field<scalar::ListenAddress>,
    /// TLS for the connections of this listener.
    #[schemars(extend("x-default" = "no TLS"))]
    tls: Field<RawListenerTls>,
    /// Whether each connection must begin with a header of the PROXY protocol, version 1 or 2. If
    /// true, only `client.trusted_proxies` may connect.
    #[schemars(extend("default" = false))]
    proxy_protocol: Field<bool>,
    /// Whether clients may use HTTP/2 besides HTTP/1.1: true, false, or the bounds of HTTP/2.
    #[schemars(extend("default" = true))]
    http2: Field<Either<bool, RawHttp2>>,
    /// The most connections that are open at once.
    #[schemars(extend("default" = 10000))]
    #[schemars(example = 20_000)]
    #[schemars(range(min = *MAX_CONNECTIONS.start(), max = *MAX_CONNECTIONS.end()))]
    max_connections: Field<u64>,
    /// How long the gateway waits for a client.
    timeouts: Field<RawListenerTimeouts>,
    /// The fewest bytes per second that a client must read of a response, or send of a body with
    /// `Content-Length`. The rate is an average over `timeouts.request_body`, and only the time in
    /// which the gateway waits for the client counts. 0 means no minimum.
    #[schemars(extend("default" = 100))]
    #[schemars(example = &"1KiB")]
    min_rate: Field<Size>,
    /// The largest size of a request line and all header fields together.
    #[schemars(extend("default" = "32KiB"))]
    #[schemars(example = &"64KiB")]
    max_head_size: Field<Size>,
    /// The largest size of the target in the request line, up to 65534 bytes.
    #[schemars(extend("default" = 65534))]
    #[schemars(example = &"8KiB")]
    max_target_size: Field<Size>,
    /// The most header fields of one request.
    #[schemars(extend("default" = 100))]
    #[schemars(example = 50)]
    #[schemars(range(min = *MAX_HEADERS.start(), max = *MAX_HEADERS.end()))]
    max_headers: Field<u64>,
}

/// The bounds of HTTP/2. The gateway closes the connection of a client that exceeds one of the
/// rates per second.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "http2", default)]
#[schemars(deny_unknown_fields)]
struct RawHttp2 {
    /// The most requests that are in progress on one connection.
    #[schemars(extend("default" = 128))]
    #[schemars(example = 64)]
    #[schemars(range(min = *MAX_STREAMS.start(), max = *MAX_STREAMS.end()))]
    max_streams: Field<u64>,
    /// The most streams that a client may reset in one second.
    #[schemars(extend("default" = 200))]
    #[schemars(example = 100)]
    #[schemars(range(min = *MAX_FRAMES.start(), max = *MAX_FRAMES.end()))]
    max_resets: Field<u64>,
    /// The most frames without content in one second: PING, SETTINGS, PRIORITY, CONTINUATION and
    /// empty DATA frames.
    #[schemars(extend("default" = 1000))]
    #[schemars(example = 500)]
    #[schemars(range(min = *MAX_FRAMES.start(), max = *MAX_FRAMES.end()))]
    max_control_frames: Field<u64>,
    /// The most WINDOW_UPDATE frames in one second.
    #[schemars(extend("default" = 20000))]
    #[schemars(example = 10_000)]
    #[schemars(range(min = *MAX_FRAMES.start(), max = *MAX_FRAMES.end()))]
    max_window_updates: Field<u64>,
}

/// How long the gateway waits for a client.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "listener timeouts", default)]
#[schemars(deny_unknown_fields)]
struct RawListenerTimeouts {
    /// The time for all that precedes HTTP: the PROXY protocol and TLS.
    #[schemars(extend("default" = "10s"))]
    #[schemars(example = &"5s")]
    handshake: Field<Period>,
    /// The time for the head of a request. It may end later, by up to a quarter of the shortest of
    /// `request_head`, `keep_alive` and `request_body`.
    #[schemars(extend("default" = "10s"))]
    #[schemars(example = &"5s")]
    request_head: Field<Period>,
    /// The longest time between two parts of a request body.
    #[schemars(extend("default" = "60s"))]
    #[schemars(example = &"30s")]
    request_body: Field<Period>,
    /// The longest time between a response and the next request.
    #[schemars(extend("default" = "75s"))]
    #[schemars(example = &"2m")]
    keep_alive: Field<Period>,
    /// How long a WebSocket stays open while neither side sends anything.
    #[schemars(extend("default" = "1h"))]
    #[schemars(example = &"10m")]
    tunnel: Field<Period>,
}

/// The listeners. PROXY headers are accepted from `trusted_proxies`.
pub fn compile(
    raw: &List<RawListener>,
    trusted_proxies: &[IpNet],
    cx: &Context<'_>,
) -> Vec<ListenerSettings> {
    cx.not_empty(raw, "there are no listeners", "write - address: 0.0.0.0:8080");
    if let Some(list) = raw.given().filter(|list| list.value.len() > MAX_LISTENERS) {
        let message = format!("there are more than {MAX_LISTENERS} listeners");
        cx.error(list.span, &message, "remove some");
        return Vec::new();
    }
    check_overlap(raw, cx);
    raw.items().filter_map(|it| it.value.compile(it.span, trusted_proxies, cx)).collect()
}

fn check_overlap(raw: &List<RawListener>, cx: &Context<'_>) {
    let addresses: Vec<_> = raw.items().filter_map(|raw| raw.value.address.given()).collect();
    for (index, address) in addresses.iter().enumerate() {
        let wanted = &address.value.0;
        let taken = addresses[..index].iter().find(|other| overlap(&other.value.0, wanted));
        if let Some(other) = taken {
            let line = other.span.line;
            let message = format!("the address is taken by the listener in line {line}");
            cx.error(address.span, &message, "choose another one");
        }
    }
}

impl RawListener {
    fn compile(
        &self,
        span: TextSpan,
        trusted_proxies: &[IpNet],
        cx: &Context<'_>,
    ) -> Option<ListenerSettings> {
        let advice = "write one, like address: 0.0.0.0:8080";
        let message = "the listener has no \"address\"";
        let address = cx.required(&self.address, span, message, advice);
        let known = address.map_or_else(no_address, |known| known.0.clone());
        let mut settings = ListenerSettings::new(known);
        settings.tls = self.tls.given().and_then(|tls| tls.value.compile(tls.span, cx));
        settings.proxy_protocol = self.proxy_protocol(trusted_proxies, cx);
        settings.http2 = self.http2(cx);
        if let Some(most) = cx.number(&self.max_connections, "max_connections", MAX_CONNECTIONS) {
            settings.max_connections = most;
        }
        if let Some(most) = cx.number(&self.max_headers, "max_headers", MAX_HEADERS) {
            settings.max_headers = most;
        }
        if let Some(rate) = self.min_rate.value() {
            settings.min_rate = rate.0;
        }
        if let Some(size) = self.max_head_size.given() {
            if !HEAD_BYTES.contains(&size.value.0) {
                let advice = "write a size from 1KiB to 1MiB";
                cx.error(size.span, "\"max_head_size\" is out of range", advice);
            }
            settings.max_head_bytes = usize::try_from(size.value.0).unwrap_or(usize::MAX);
        }
        if let Some(size) = self.max_target_size.given() {
            let target_bytes = usize::try_from(size.value.0).unwrap_or(usize::MAX);
            if !TARGET_BYTES.contains(&target_bytes) {
                let advice = "write a size from 256 to 65534 bytes";
                cx.error(size.span, "\"max_target_size\" is out of range", advice);
            }
            settings.max_target_bytes = target_bytes;
        }
        if let Some(timeouts) = self.timeouts.value() {
            settings.timeouts = timeouts.compile(cx);
        }
        address.map(|_| settings)
    }

    /// The peers whose PROXY headers are accepted. Without any, every client could send one.
    fn proxy_protocol(&self, trusted: &[IpNet], cx: &Context<'_>) -> Option<Vec<IpNet>> {
        let given = self.proxy_protocol.given().filter(|given| given.value)?;
        if trusted.is_empty() {
            let message = "\"proxy_protocol\" is for trusted proxies, and there are none";
            let advice = "name the load balancers under client: trusted_proxies: [10.0.0.0/8]";
            cx.error(given.span, message, advice);
        }
        Some(trusted.to_vec())
    }

    fn http2(&self, cx: &Context<'_>) -> Option<Http2Settings> {
        match self.http2.value() {
            Some(Either::Short(false)) => None,
            Some(Either::Short(true)) | None => Some(Http2Settings::default()),
            Some(Either::Long(bounds)) => Some(bounds.compile(cx)),
        }
    }
}

impl RawHttp2 {
    fn compile(&self, cx: &Context<'_>) -> Http2Settings {
        let mut settings = Http2Settings::default();
        let Http2Settings {
            max_streams, max_resets, max_control_frames, max_window_updates, ..
        } = &mut settings;
        for (bound, field, name, range) in [
            (max_streams, &self.max_streams, "max_streams", MAX_STREAMS),
            (max_resets, &self.max_resets, "max_resets", MAX_FRAMES),
            (max_control_frames, &self.max_control_frames, "max_control_frames", MAX_FRAMES),
            (max_window_updates, &self.max_window_updates, "max_window_updates", MAX_FRAMES),
        ] {
            *bound = cx.number(field, name, range).unwrap_or(*bound);
        }
        settings
    }
}

impl RawListenerTimeouts {
    fn compile(&self, cx: &Context<'_>) -> ListenerTimeouts {
        let usual = ListenerTimeouts::default();
        ListenerTimeouts {
            handshake: cx.timeout(&self.handshake, "handshake", usual.handshake),
            request_head: cx.timeout(&self.request_head, "request_head", usual.request_head),
            request_body: cx.timeout(&self.request_body, "request_body", usual.request_body),
            keep_alive: cx.timeout(&self.keep_alive, "keep_alive", usual.keep_alive),
            tunnel: cx.timeout(&self.tunnel, "tunnel", usual.tunnel),
            ..usual
        }
    }
}

/// Stands in for an address that is missing, so that the other fields are checked.
fn no_address() -> ListenAddress {
    ListenAddress::Tcp(([0, 0, 0, 0], 0).into())
}

/// Whether two listeners would receive each other's connections.
pub fn overlap(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Tcp(one), ListenAddress::Tcp(other)) => {
            let any = one.ip().is_unspecified() || other.ip().is_unspecified();
            one.port() == other.port()
                && one.port() != 0
                && one.is_ipv4() == other.is_ipv4()
                && (any || one.ip() == other.ip())
        }
        _ => one == other,
    }
}

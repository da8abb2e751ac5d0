//! `listeners`.

use ipnet::IpNet;

use super::Compiler;
use crate::config::field::{Either, Field, Spanned};
use crate::config::node::Span;
use crate::config::raw::{List, RawHttp2, RawListener, RawListenerTimeouts};
use crate::server::{Http2Settings, ListenAddress, ListenerSettings, ListenerTimeouts};

/// Each is a socket for every worker.
const MAX_LISTENERS: usize = 256;
/// What a listener may hold at once.
const MAX_CONNECTIONS: std::ops::RangeInclusive<u64> = 1..=10_000_000;
/// From what every client sends to what still fits a worker's buffers.
const HEAD_BYTES: std::ops::RangeInclusive<u64> = 1024..=1024 * 1024;
/// From what most targets fit to what the HTTP library can hold.
const TARGET_BYTES: std::ops::RangeInclusive<usize> = 256..=ListenerSettings::LONGEST_TARGET;
const MAX_HEADERS: std::ops::RangeInclusive<u64> = 1..=10_000;
/// The largest number that a stream can have.
const MAX_STREAMS: std::ops::RangeInclusive<u64> = 1..=0x7fff_ffff;
/// What a client may send in a second.
const MAX_FRAMES: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;

impl Compiler<'_> {
    pub(super) fn listeners(
        &self,
        raw: &List<RawListener>,
        trusted_proxies: &[IpNet],
    ) -> Vec<ListenerSettings> {
        let advice = "write: listeners: [{ address: 0.0.0.0:8080 }]";
        self.required(raw, Span::FILE, "there are no \"listeners\"", advice);
        self.not_empty(raw, "there are no listeners", "write - address: 0.0.0.0:8080");
        if let Some(list) = raw.given().filter(|list| list.value.len() > MAX_LISTENERS) {
            let message = format!("there are more than {MAX_LISTENERS} listeners");
            self.problems.error(list.span, &message, "remove some");
            return Vec::new();
        }
        self.check_overlap(raw);
        raw.items().filter_map(|listener| self.listener(listener, trusted_proxies)).collect()
    }

    fn check_overlap(&self, raw: &List<RawListener>) {
        let addresses: Vec<_> = raw.items().filter_map(|raw| raw.value.address.given()).collect();
        for (index, address) in addresses.iter().enumerate() {
            let wanted = &address.value.0;
            let taken = addresses[..index].iter().find(|other| overlap(&other.value.0, wanted));
            if let Some(other) = taken {
                let line = other.span.line;
                let message = format!("the address is taken by the listener in line {line}");
                self.problems.error(address.span, &message, "choose another one");
            }
        }
    }

    fn listener(
        &self,
        raw: &Spanned<RawListener>,
        trusted_proxies: &[IpNet],
    ) -> Option<ListenerSettings> {
        let advice = "write one, like address: 0.0.0.0:8080";
        let owner = raw.span;
        let raw = &raw.value;
        let address = self.required(&raw.address, owner, "the listener has no \"address\"", advice);
        let known = address.map_or_else(nowhere, |known| known.0.clone());
        let mut settings = ListenerSettings::new(known);
        settings.tls = raw.tls.given().and_then(|tls| self.listener_tls(tls));
        settings.proxy_protocol = self.proxy_protocol(&raw.proxy_protocol, trusted_proxies);
        settings.http2 = self.http2(&raw.http2);
        if let Some(most) = self.count(&raw.max_connections, "max_connections", MAX_CONNECTIONS) {
            settings.max_connections = most;
        }
        if let Some(most) = self.count(&raw.max_headers, "max_headers", MAX_HEADERS) {
            settings.max_headers = most;
        }
        if let Some(rate) = raw.min_rate.value() {
            settings.min_rate = rate.0;
        }
        if let Some(size) = raw.max_head_size.given() {
            if !HEAD_BYTES.contains(&size.value.0) {
                let advice = "write a size from 1KiB to 1MiB";
                self.problems.error(size.span, "\"max_head_size\" is out of range", advice);
            }
            settings.max_head_bytes = usize::try_from(size.value.0).unwrap_or(usize::MAX);
        }
        if let Some(size) = raw.max_target_size.given() {
            let target_bytes = usize::try_from(size.value.0).unwrap_or(usize::MAX);
            if !TARGET_BYTES.contains(&target_bytes) {
                let advice = "write a size from 256 to 65534 bytes";
                self.problems.error(size.span, "\"max_target_size\" is out of range", advice);
            }
            settings.max_target_bytes = target_bytes;
        }
        if let Some(timeouts) = raw.timeouts.value() {
            settings.timeouts = self.listener_timeouts(timeouts);
        }
        address.map(|_| settings)
    }

    /// The peers that say for whom they connect. Anybody could, if all were trusted.
    fn proxy_protocol(&self, raw: &Field<bool>, trusted: &[IpNet]) -> Option<Vec<IpNet>> {
        let given = raw.given().filter(|given| given.value)?;
        if trusted.is_empty() {
            let message = "\"proxy_protocol\" is for trusted proxies, and there are none";
            let advice = "name the load balancers under client: trusted_proxies: [10.0.0.0/8]";
            self.problems.error(given.span, message, advice);
        }
        Some(trusted.to_vec())
    }

    fn http2(&self, raw: &Field<Either<bool, RawHttp2>>) -> Option<Http2Settings> {
        let mut settings = Http2Settings::default();
        let raw = match raw.value() {
            Some(Either::Short(false)) => return None,
            Some(Either::Short(true)) | None => return Some(settings),
            Some(Either::Long(raw)) => raw,
        };
        let count = |field, name, range| {
            let count = self.count(field, name, range)?;
            u32::try_from(count).ok()
        };
        let Http2Settings { max_streams, max_resets, max_control_frames, max_window_updates } =
            &mut settings;
        for (bound, field, name, range) in [
            (max_streams, &raw.max_streams, "max_streams", MAX_STREAMS),
            (max_resets, &raw.max_resets, "max_resets", MAX_FRAMES),
            (max_control_frames, &raw.max_control_frames, "max_control_frames", MAX_FRAMES),
            (max_window_updates, &raw.max_window_updates, "max_window_updates", MAX_FRAMES),
        ] {
            *bound = count(field, name, range).unwrap_or(*bound);
        }
        Some(settings)
    }

    fn listener_timeouts(&self, raw: &RawListenerTimeouts) -> ListenerTimeouts {
        let usual = ListenerTimeouts::default();
        ListenerTimeouts {
            handshake: self.timeout(&raw.handshake, "handshake", usual.handshake),
            request_head: self.timeout(&raw.request_head, "request_head", usual.request_head),
            request_body: self.timeout(&raw.request_body, "request_body", usual.request_body),
            keep_alive: self.timeout(&raw.keep_alive, "keep_alive", usual.keep_alive),
            tunnel: self.timeout(&raw.tunnel, "tunnel", usual.tunnel),
        }
    }
}

/// Stands in for an address that is missing, so that the rest is checked.
fn nowhere() -> ListenAddress {
    ListenAddress::Tcp(([0, 0, 0, 0], 0).into())
}

/// Whether two listeners would take each other's connections.
fn overlap(one: &ListenAddress, other: &ListenAddress) -> bool {
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

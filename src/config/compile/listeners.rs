//! `listeners`.

use std::net::SocketAddr;

use super::Compiler;
use crate::config::field::Spanned;
use crate::config::node::Span;
use crate::config::raw::{List, RawListener, RawListenerTimeouts};
use crate::config::scalar::ListenAddress;
use crate::server::{ListenerSettings, ListenerTimeouts};

/// Each is a socket for every worker.
const MAX_LISTENERS: usize = 256;
/// What a listener may hold at once.
const MAX_CONNECTIONS: std::ops::RangeInclusive<u64> = 1..=10_000_000;
/// From what every client sends to what still fits a worker's buffers.
const HEAD_BYTES: std::ops::RangeInclusive<u64> = 1024..=1024 * 1024;
/// From what most targets fit to what the HTTP library can hold.
const TARGET_BYTES: std::ops::RangeInclusive<usize> = 256..=ListenerSettings::LONGEST_TARGET;
const MAX_HEADERS: std::ops::RangeInclusive<u64> = 1..=10_000;

impl Compiler<'_> {
    pub(super) fn listeners(&self, raw: &List<RawListener>) -> Vec<ListenerSettings> {
        let advice = "write: listeners: [{ address: 0.0.0.0:8080 }]";
        self.required(raw, Span::FILE, "there are no \"listeners\"", advice);
        self.not_empty(raw, "there are no listeners", "write - address: 0.0.0.0:8080");
        if let Some(list) = raw.given().filter(|list| list.value.len() > MAX_LISTENERS) {
            let message = format!("there are more than {MAX_LISTENERS} listeners");
            self.problems.error(list.span, &message, "remove some");
            return Vec::new();
        }
        self.check_overlap(raw);
        raw.items().filter_map(|listener| self.listener(listener)).collect()
    }

    fn check_overlap(&self, raw: &List<RawListener>) {
        let addresses: Vec<_> = raw.items().filter_map(|raw| raw.value.address.given()).collect();
        for (index, address) in addresses.iter().enumerate() {
            let ListenAddress(wanted) = address.value;
            let taken = addresses[..index].iter().find(|other| overlap(other.value.0, wanted));
            if let Some(other) = taken {
                let line = other.span.line;
                let message = format!("the address is taken by the listener in line {line}");
                self.problems.error(address.span, &message, "choose another port");
            }
        }
    }

    fn listener(&self, raw: &Spanned<RawListener>) -> Option<ListenerSettings> {
        let advice = "write one, like address: 0.0.0.0:8080";
        let owner = raw.span;
        let raw = &raw.value;
        let address = self.required(&raw.address, owner, "the listener has no \"address\"", advice);
        let mut settings = ListenerSettings::new(address.map_or_else(nowhere, |known| known.0));
        if let Some(most) = self.count(&raw.max_connections, "max_connections", MAX_CONNECTIONS) {
            settings.max_connections = most;
        }
        if let Some(most) = self.count(&raw.max_headers, "max_headers", MAX_HEADERS) {
            settings.max_headers = most;
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

    fn listener_timeouts(&self, raw: &RawListenerTimeouts) -> ListenerTimeouts {
        let usual = ListenerTimeouts::default();
        ListenerTimeouts {
            request_head: self.timeout(&raw.request_head, "request_head", usual.request_head),
            request_body: self.timeout(&raw.request_body, "request_body", usual.request_body),
            keep_alive: self.timeout(&raw.keep_alive, "keep_alive", usual.keep_alive),
        }
    }
}

/// Stands in for an address that is missing, so that the rest is checked.
fn nowhere() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

/// Whether two listeners would take each other's connections.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port()
        && one.port() != 0
        && one.is_ipv4() == other.is_ipv4()
        && (any || one.ip() == other.ip())
}

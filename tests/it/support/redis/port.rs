//! Ports for servers that need a fixed port, which stays the same after a restart.

use std::net::Ipv4Addr;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::support::reserved;

/// Ports below those of outgoing connections, so that no connection takes a port while its
/// server restarts. The range has room for the ports of [`BUS`].
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;
/// The distance from a node's port to its port for messages between nodes.
const BUS: u16 = 10_000;

/// A port on which no program listens, also not on the port [`BUS`] above it. Another
/// process can still take the port first: then the caller must request another one.
pub(super) fn free_port() -> u16 {
    // Concurrent test programs begin at different ports.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(process::id() % u32::from(COUNT)).expect("the count is a u16");
    let is_free = |port| reserved::bound_to((Ipv4Addr::LOCALHOST, port).into()).is_ok();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (own + step) % COUNT;
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
    panic!("no port from {FIRST} to {} is free", FIRST + COUNT - 1);
}

//! Ports for servers that must be told theirs, and come back on the same one.

use std::net::Ipv4Addr;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::support::reserved;

/// Below what the system gives to outgoing connections, so that no connection takes
/// a port away while its server restarts; with room for the ports of [`BUS`].
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;
/// The nodes of a cluster speak with each other so far above their ports.
const BUS: u16 = 10_000;

/// A port on which no program listens, nor on the one [`BUS`] above it. Another
/// process can still take the port first: the caller must be ready to ask again.
pub(super) fn free_port() -> u16 {
    // Test programs that run side by side begin at different places.
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

//! What the loop that drives a connection learns of its state, in both versions of HTTP.

use super::activity::Activity;
use crate::server::settings::ListenerTimeouts;

/// Whether the library looks for further bytes of a client that waits for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It has not waited for the client yet, and may be kept from looking.
    Untried,
    /// It was kept from looking, and the request is still active.
    PutOff,
    /// It was kept from looking, and the request has ended: it has to read the next one.
    Due,
    /// It looks.
    Made,
}

/// The state of a connection, for the loop that drives it. A version of HTTP overrides what it
/// has.
pub trait Progress {
    /// What both versions record.
    fn activity(&self) -> &Activity;

    /// Whether the client has exceeded a time limit, in sending or in reading.
    fn is_overdue(&self, timeouts: &ListenerTimeouts) -> bool;

    /// HTTP/1: whether a part of a head has arrived, and no request is active.
    fn is_reading_head(&self) -> bool {
        false
    }

    /// HTTP/1: stops waiting for the rest of a head. Returns false if no head is incomplete, or
    /// if this was called before.
    fn give_up_head(&self) -> bool {
        false
    }

    /// HTTP/1: whether the library has to look.
    fn look(&self) -> Look {
        Look::Made
    }

    /// HTTP/1: a read waits for the client, or may from now on.
    fn waits_to_read(&self) {}

    /// HTTP/2: whether a connection that the library reports as ended is polled again.
    fn resumes_after_end(&self) -> bool {
        false
    }

    /// HTTP/2: whether an overdue connection is told that it ends. A request that crosses the message
    /// on the way is served.
    fn ends_in_order(&self) -> bool {
        false
    }

    /// HTTP/2: aborts each response that the client reads too slowly, or not at all.
    fn abort_slow_responses(&self) {}
}

//! What the service can write to a client beside its responses.

use std::rc::Rc;

use super::exchange::Exchange;
use super::head_lines::HeadLines;
use super::interim::InterimQueue;

/// What the service can write to the client of an HTTP/1 connection beside its responses, which
/// the HTTP library writes.
#[derive(Clone, Debug)]
pub struct ClientLink {
    /// Sends interim responses.
    pub interim: InterimQueue,
    /// Adds lines to the heads of responses.
    pub lines: HeadLines,
}

impl ClientLink {
    /// To the client of the connection with this exchange.
    pub fn new(exchange: &Rc<Exchange>) -> Self {
        let lines = HeadLines::new(Rc::clone(exchange));
        Self { interim: InterimQueue::default(), lines }
    }
}

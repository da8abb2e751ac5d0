//! A call that waits for its reply.

use super::super::deadline::ReplySender;
use super::super::failure::StoreError;
use super::super::script::Encoded;
use super::super::slots;

/// Whether a call is sent again if its connection breaks before the reply. The server may
/// have counted the first one, and then counts it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The call is not sent again. The caller gets an error.
    Never,
    /// The call is sent again once.
    IfLost,
}

/// A call that waits for its reply.
#[derive(Debug)]
pub(crate) struct Call {
    /// The keys and the body.
    pub(crate) encoded: Encoded,
    /// Calls of one group can be sent in one `EVALSHA`. If the server has slots it is the slot.
    pub(crate) group: u16,
    /// Whether another server has redirected the call, so that `ASKING` must be sent.
    pub(crate) asking: bool,
    /// Whether its group is divided, because only some of the keys have moved to another server.
    pub(crate) is_apart: bool,
    /// Whether it is sent again if the reply is lost.
    pub(crate) repeat: Repeat,
    /// Receives the reply. It is closed when no caller waits any more.
    pub(crate) answer: ReplySender,
}

impl Call {
    /// Whether it can be sent with others of its group. `ASKING` holds for one command only.
    pub(crate) const fn joins(&self) -> bool {
        !self.asking && !self.is_apart
    }

    /// Makes the slot of its keys its group.
    pub(crate) fn group_by_slot(&mut self) {
        self.group = self.encoded.keys.first().map_or(0, |key| slots::slot(key));
    }

    /// Ends the call with an error. The error describes the last `times` sendings of the
    /// call. If the call was sent before over a connection that broke, it may have been
    /// counted then.
    pub(crate) fn fail(self, error: &StoreError, times: u8) {
        let is_told = error.may_have_counted() || error.is_redirection();
        let error = match is_told || self.answer.times_sent() <= times {
            true => error.clone(),
            false => StoreError::Lost(format!("then it was sent again: {error}")),
        };
        self.answer.send(Err(error));
    }
}

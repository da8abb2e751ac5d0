//! What is sent with a request.

use crate::message::Forwarding;
use crate::proxy::interim::InterimRelay;

/// What a request needs besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOptions<'a> {
    /// Where interim responses go.
    pub interim: Option<&'a InterimRelay>,
    /// Adds the fields about the client, if they are not among those of the request. Only
    /// HTTP/1 does it.
    pub forwarding: Option<&'a Forwarding>,
}

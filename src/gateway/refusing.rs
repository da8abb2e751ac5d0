//! The rest of the life of a request that a limit refuses, if it is not answered at once.
//!
//! The response to a banned client is held back as long as its policy says, so that a client that
//! does not wait for the end of its ban sends fewer requests.
//!
//! If the form of the response depends on the message in the body, and no policy has read it, it is
//! read now: within the bounds of every body that is read. A body that cannot be read changes
//! nothing but the form of the response.

use std::rc::Rc;
use std::sync::Arc;

use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderValue, Response};
use tollgate_core::algorithm::Retry;
use tollgate_core::decision::{Decision, LimitFields, Outcome, OwnedDecision};
use tollgate_core::policy::Policy;
use tollgate_core::time::monotonic;

use super::body::ResponseBody;
use super::exchange::Exchange;
use super::reading::Unread;
use super::{Client, Gateway};
use crate::message::recycle;
use crate::server::ClientBody;

/// A decision that refuses a request.
pub struct Refused {
    decision: OwnedDecision,
    retry: Retry,
    limits: LimitFields,
}

impl Refused {
    /// By this decision, whose fields are `limits`.
    pub const fn new(decision: OwnedDecision, retry: Retry, limits: LimitFields) -> Self {
        Self { decision, retry, limits }
    }

    /// The same. Nothing remains of the decision.
    pub fn taking(
        decision: &mut Decision<&Arc<Policy>>,
        retry: Retry,
        limits: LimitFields,
    ) -> Self {
        let taken = std::mem::replace(decision, Decision::uncounted(Outcome::Admit));
        Self::new(taken.into_owned(), retry, limits)
    }
}

impl Gateway {
    /// Refuses a request.
    pub async fn refuse(
        self: Rc<Self>,
        refused: Refused,
        client: Rc<Client>,
        mut head: Parts,
        body: ClientBody,
        mut exchange: Exchange,
    ) -> Response<ResponseBody> {
        let Refused { decision, retry, limits } = refused;
        let mut ends_connection = false;
        if exchange.needs_message(&decision, &body) {
            let begun = monotonic();
            ends_connection = !self.read_message(&client, &mut head, body, &mut exchange).await;
            exchange.waits(monotonic().duration_since(begun).into());
        }
        exchange.waits(self.banned.hold_back(decision.ban_delay()).await);
        recycle(head.headers);
        let mut refusal = exchange.refusal(&decision, retry);
        if ends_connection {
            refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        exchange.end(Ok(refusal), limits)
    }

    /// Reads the message in the body of a request that is refused. Returns whether another request
    /// may follow on its connection.
    async fn read_message(
        &self,
        client: &Client,
        head: &mut Parts,
        body: ClientBody,
        exchange: &mut Exchange,
    ) -> bool {
        let Some(route) = exchange.route() else { return true };
        let handling = &self.snapshot.routes[route];
        let settings = handling.refusals.as_ref().and_then(|it| it.read_body.as_ref());
        let Some(settings) = settings else { return true };
        match self.read_within(settings, handling, client, head, body).await {
            Ok((content, _)) => {
                exchange.has_read(content);
                true
            }
            Err(Unread::Failed(failure) | Unread::Beyond(failure, _)) => !failure.ends_connection(),
        }
    }
}

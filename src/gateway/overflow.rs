//! The life of a request that overflows: the policies that refuse it hand it to a later route, whose
//! policies judge it once more.
//!
//! The refused decision has consumed nothing. A route that takes what overflows has no overflow of
//! its own, so a request is judged twice at most.

use std::rc::Rc;
use std::sync::Arc;

use http::Response;
use http::request::Parts;
use hyper::body::Body as _;
use tollgate_core::decision::Decision;
use tollgate_core::policy::Policy;
use tollgate_core::request::Content;

use super::body::ResponseBody;
use super::exchange::Exchange;
use super::{Client, Gateway};
use crate::engine::{Again, AskedPolicies, Judgement};
use crate::server::ClientBody;

impl Gateway {
    /// The index of the route that judges this refused request once more, if there is one.
    pub fn overflow_of(&self, judgement: &Judgement<'_>) -> Option<usize> {
        // The route demands a credential of it, too.
        if judgement.asked == AskedPolicies::Unproved {
            return None;
        }
        self.overflow_from(judgement.route, &judgement.decision)
    }

    /// The same for this decision of the route with this index.
    pub fn overflow_from(&self, route: usize, decision: &Decision<&Arc<Policy>>) -> Option<usize> {
        self.snapshot.rules.route(route).overflow.as_deref()?.route_after(decision)
    }

    /// The rest of the life of a request that overflows to the route that judges it again.
    pub async fn overflow(
        self: Rc<Self>,
        again: Again,
        client: Rc<Client>,
        head: Parts,
        body: ClientBody,
        exchange: Exchange,
    ) -> Response<ResponseBody> {
        let values = match exchange.values() {
            Content::Read(values) => Content::Read(values),
            Content::Empty => Content::Empty,
            Content::Unread | Content::Unknown => Content::Unread,
        };
        // A body that was read is there, even if it has no bytes.
        let has_content = matches!(values, Content::Read(_)) || !body.is_end_stream();
        let moment = self.engine.clock().moment();
        let mut judged = self.judge_on(again, &client, &head, has_content, values, moment).await;
        self.carry_out(&client, &mut judged, (head, body), exchange).await
    }
}

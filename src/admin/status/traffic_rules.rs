//! What is wrong with connections, with what waits for them, and with the metrics of requests.

use tollgate_core::time::Span;

use super::rule::{Bound, Rule};
use super::window::Counted;

const FIVE_MINUTES: Span = Span::from_secs(300);
const QUARTER_OF_AN_HOUR: Span = Span::from_secs(900);

/// An upstream sends bytes behind the end of a response.
pub const UPSTREAM_SENDS_EXCESS: Rule = Rule {
    code: "upstream_sends_excess",
    alert: Some("TollgateUpstreamSendsExcess"),
    over: Some(QUARTER_OF_AN_HOUR),
    bound: Bound::Above(0.0),
    values: |it| it.window.has_grown(Counted::Excess, QUARTER_OF_AN_HOUR),
    text: |_, about, _| {
        format!(
            "the upstream {about:?} has sent bytes behind the end of a response, and the next \
             response on such a connection could be wrong"
        )
    },
    advice: "the log names the endpoint: mend it, or set keep_alive.max_idle of the upstream \
             to 0",
};

/// No connection to an upstream was free.
pub const UPSTREAM_QUEUE_REFUSES: Rule = Rule {
    code: "upstream_queue_refuses",
    alert: Some("TollgateUpstreamQueueRefuses"),
    over: Some(FIVE_MINUTES),
    bound: Bound::Above(0.0),
    values: |it| it.window.has_grown(Counted::QueueRefused, FIVE_MINUTES),
    text: |_, about, _| {
        format!(
            "requests to the upstream {about:?} got 503: all connections that max_connections \
             allows are in use, and the queue was full or the wait too long"
        )
    },
    advice: "see tollgate_upstream_queue_refused_total: add endpoints, or raise \
             max_connections or queue of the upstream",
};

/// More responses to banned clients were to be held back than a worker can.
pub const BANS_NOT_HELD: Rule = Rule {
    code: "bans_not_held",
    alert: Some("TollgateBansNotHeld"),
    over: Some(FIVE_MINUTES),
    bound: Bound::Above(0.0),
    values: |it| it.window.has_grown(Counted::UnheldBans, FIVE_MINUTES),
    text: |_, _, _| {
        "responses to banned clients were sent at once, because a worker held back 10,000 \
         others: such clients can send more requests than delay of their penalty allows"
            .to_owned()
    },
    advice: "block the addresses of banned clients before the gateway, lower max_connections \
             of the listener, or shorten delay of penalty",
};

/// The metrics have no room for more series with values that clients or upstreams choose.
pub const SERIES_FULL: Rule = Rule {
    code: "series_full",
    alert: Some("TollgateSeriesFull"),
    over: None,
    bound: Bound::Above(0.0),
    values: |it| vec![(String::new(), it.window.gauges.series_full)],
    text: |_, _, _| {
        "there is no room for more series of metrics (max_series): some requests are counted \
         without their method, their error and their whole status"
            .to_owned()
    },
    advice: "see which labels have many values; if they are legitimate, raise \
             telemetry.metrics.max_series; a restart begins anew",
};

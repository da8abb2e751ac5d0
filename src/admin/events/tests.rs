//! Streams under a clock that stands still.

use std::cell::Cell;
use std::rc::Rc;

use http::Method;
use http_body_util::BodyExt as _;
use serde_json::json;

use tollgate_core::algorithm::Retry;
use tollgate_core::digest::Principal;
use tollgate_core::time::Timestamp;

use super::*;
use crate::admin::calls::API;
use crate::telemetry::{Refused, WorkerRefusals};

fn read(query: &str) -> Result<Call, Problem> {
    API.find(&Method::GET, "/v1/events")?.read("/v1/events", Some(query))
}

/// The events of a node, and whether their clients may read them.
struct Bench {
    events: Events,
    may_read: Rc<Cell<bool>>,
    refusals: Arc<RefusalRings>,
    budgets: Arc<BudgetWarnings>,
}

impl Bench {
    fn new() -> Self {
        let may_read = Rc::new(Cell::new(true));
        let refusals = Arc::default();
        let budgets = Arc::default();
        Self { events: Events::new(), may_read, refusals, budgets }
    }

    fn open(&self, topics: &str) -> Result<EventBody, Problem> {
        let may_read = Rc::clone(&self.may_read);
        let query = format!("topics={topics}");
        let call = read(&query).expect("it is a call");
        let may_read = Box::new(move || may_read.get());
        self.events.stream(&call, &self.refusals, &self.budgets, may_read)
    }

    fn publish(&self, number: u64, state: &str) {
        let phase = if state == "draining" { Phase::Draining } else { Phase::Serving };
        self.events.publish(&json!(number), &json!(state), phase);
    }
}

async fn next(stream: &mut EventBody) -> Option<String> {
    let frame = stream.frame().await?.expect("it cannot fail");
    Some(String::from_utf8(frame.into_data().expect("data").to_vec()).expect("UTF-8"))
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_each_second_and_the_state_when_it_changes() {
    let bench = Bench::new();
    let mut both = bench.open("summary,state").expect("there is room");
    let mut state = bench.open("state").expect("there is room");
    bench.publish(1, "ok");
    let first = "event: state\ndata: \"ok\"\n\n";
    let summary = |number| format!("event: summary\ndata: {number}\n\n");
    assert_eq!(next(&mut both).await, Some(format!("{first}{}", summary(1))));
    assert_eq!(next(&mut state).await.as_deref(), Some(first));
    bench.publish(2, "ok");
    assert_eq!(next(&mut both).await, Some(summary(2)));
    // Nothing has changed, so there is a comment at the end of its time.
    assert_eq!(next(&mut state).await.as_deref(), Some(HEARTBEAT_TEXT));
    bench.publish(3, "degraded");
    let changed = "event: state\ndata: \"degraded\"\n\n";
    assert_eq!(next(&mut state).await.as_deref(), Some(changed));
    // A new stream begins with what is known.
    let mut late = bench.open("summary").expect("there is room");
    assert_eq!(next(&mut late).await, Some(summary(3)));
}

#[tokio::test(start_paused = true)]
async fn a_stuck_reader_queues_nothing_and_is_told_what_it_has_lost() {
    let bench = Bench::new();
    let mut stuck = bench.open("summary").expect("there is room");
    bench.publish(1, "ok");
    let first = next(&mut stuck).await.expect("an event");
    for number in 2..=100_000 {
        bench.publish(number, "ok");
    }
    let lost = "event: lost\ndata: {\"summaries\":99998,\"refusals\":0,\"budgets\":0}\n\n";
    let expected = format!("{lost}event: summary\ndata: 100000\n\n");
    assert_eq!(next(&mut stuck).await, Some(expected));
    assert_eq!(first, "event: summary\ndata: 1\n\n");
}

#[tokio::test(start_paused = true)]
async fn refusals_are_sent_as_they_come_and_a_flood_is_cut_and_told() {
    let bench = Bench::new();
    bench.refusals.keep_whole(true);
    let worker = WorkerRefusals::new(&bench.refusals);
    let keep = |client: u128| {
        worker.keep(&Refused {
            time: Timestamp::from_micros(1),
            request_id: "id",
            policy: &Arc::from("each"),
            client: Principal::from_bits(client),
            text: "ip 192.0.2.0/24",
            whole: Some(&"ip 192.0.2.77".to_owned().into()),
            plan: None,
            api_key: None,
            limit: 3,
            used: 3,
            unit: None,
            retry: Retry::Never,
            route: "all",
            source: "store",
            method: "GET",
            path: "/",
        });
    };
    keep(1);
    let mut stream = bench.open("refusals").expect("there is room");
    keep(2);
    bench.publish(1, "ok");
    let one = next(&mut stream).await.expect("an event");
    assert!(one.starts_with("event: refusals\ndata: {\"items\":[{"), "{one}");
    assert_eq!(one.matches("\"policy\":\"each\"").count(), 1, "the first one was before: {one}");
    (0..10_000).for_each(keep);
    bench.publish(2, "ok");
    let flood = next(&mut stream).await.expect("an event");
    assert!(flood.starts_with("event: lost\ndata: {\"summaries\":0,\"refusals\":9900,"), "{flood}");
    assert_eq!(flood.matches("\"policy\":\"each\"").count(), MAX_REFUSALS);
    keep(3);
    bench.publish(3, "ok");
    let after = next(&mut stream).await.expect("an event");
    assert!(after.len() < 1000 && after.starts_with("event: refusals\n"), "{after}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_credential_and_with_the_node() {
    let bench = Bench::new();
    let mut stream = bench.open("summary").expect("there is room");
    bench.may_read.set(false);
    bench.publish(1, "ok");
    let end = next(&mut stream).await.expect("it says so");
    assert!(end.starts_with("event: end\n") && end.contains("credential"), "{end}");
    assert_eq!(next(&mut stream).await, None);
    let bench = Bench::new();
    let mut stream = bench.open("summary,state").expect("there is room");
    bench.publish(1, "draining");
    let end = next(&mut stream).await.expect("it says so");
    assert!(end.contains("data: \"draining\"\n\nevent: summary\n"), "{end}");
    assert!(end.contains("event: end\n"), "{end}");
    assert_eq!(next(&mut stream).await, None);
}

#[tokio::test(start_paused = true)]
async fn there_are_sixteen_streams_and_unknown_topics_are_mistakes() {
    let bench = Bench::new();
    for topics in ["top", "", "summary,", "Summary"] {
        let query = format!("topics={topics}");
        assert!(read(&query).is_err(), "{topics}");
    }
    let mut open: Vec<_> = (0..MAX_STREAMS).map(|_| bench.open("state").expect("room")).collect();
    assert!(bench.open("state").is_err());
    open.pop();
    assert!(bench.open("state").is_ok());
}

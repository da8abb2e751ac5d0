//! A log with keys is replayed exactly: random requests are decided and settled by the
//! engine, over counters in memory. Their lines are replayed.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response};
use proptest::prelude::*;
use serde_json::Value;
use tollgate_core::decision::{Headroom, Outcome, RateLimiter};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::log_fields::FieldNames;
use tollgate_core::request::RequestView;
use tollgate_core::routes::Rules;
use tollgate_core::store::{MemoryStore, Store};
use tollgate_core::time::{Clock, Span, Timestamp, monotonic};
use tollgate_replay::{Input, Job, Setup, replay};

use crate::config::Config;
use crate::engine::{Authentication, Engine, Placed, Seen, Settlement, SharedAuth};
use crate::gateway::{record_decision, record_settlement};
use crate::telemetry::{
    AccessLog, AccessLogSettings, AuthMetrics, Forwarders, LineFormat, Metrics, Output, Record,
    Recording, RefusalRings, Sinks, TopHistory, UnsettledWarnings, WorkerForwarders,
    WorkerRefusals, WorkerTop,
};

const LIMITS: &str = "\
listeners: [{ address: \"127.0.0.1:0\" }]
client: { trusted_proxies: [192.0.2.0/24] }
policies:
  sliding: { key: \"header:x-key\", limit: 5/10s, cost: { header: x-cost, default: 1, max: 9 } }
  shadow: { key: ip, limit: 3/5s, algorithm: fixed_window, mode: shadow }
  bucket: { key: \"header:x-key\", limit: 6/3s, algorithm: token_bucket, burst: 3 }
  flight: { key: ip, limit: 2, algorithm: concurrency }
  volume: { key: ip, limit: 90/10s, cost: { reserve: 10, settle: { response_bytes: 1 } } }
  logins: { key: ip, limit: 2/20s, algorithm: fixed_window, count: { status: [401] } }
  punished: { key: ip, limit: 2/second, penalty: { after: 3/10s, ban: 5s } }
  plans: { key: \"header:x-key\", limit: 2/5s, plans: { from: \"header:x-plan\", limits: { pro: 6/5s, inside: unlimited } } }
  queue: { key: global, limit: 8/second, algorithm: leaky_bucket, max_delay: 500ms }
  needed: { key: \"header:x-key\", limit: 9/2s, algorithm: sliding_log, missing_key: deny }
routes:
- { path: /0, policies: [sliding, shadow], respond: { body: ok } }
- { path: /1, policies: [bucket, flight, volume], respond: { body: ok } }
- { path: /2, policies: [logins, punished, shadow], respond: { body: ok } }
- { path: /3, policies: [plans, queue], respond: { body: ok } }
- { path: /4, policies: [needed, flight], respond: { body: ok } }
";

/// A request, and what becomes of it if it is admitted.
#[derive(Clone, Debug)]
struct Sent {
    /// Microseconds after the one before. A worker needs several for each request.
    gap_us: u64,
    route: u8,
    client: u8,
    plan: &'static str,
    cost: u8,
    method: &'static str,
    took_us: u64,
    status: u16,
    bytes: usize,
}

fn sent() -> impl Strategy<Value = Sent> {
    let plans = prop::sample::select(vec!["", "pro", "inside", "none"]);
    let methods = prop::sample::select(vec!["GET", "GET", "GET", "OPTIONS"]);
    let gaps = prop_oneof![Just(1), 1..2000_u64, 1..2_000_000_u64];
    (gaps, 0..6_u8, 0..3_u8, plans, 0..9_u8, methods, 0..3_000_000_u64, 0..3_usize, 0..60_usize)
        .prop_map(|(gap_us, route, client, plan, cost, method, took_us, status, bytes)| Sent {
            gap_us,
            route,
            client,
            plan,
            cost,
            method,
            took_us,
            status: [200, 401, 503][status],
            bytes,
        })
}

/// A request in progress.
struct InProgress {
    end_us: u64,
    recording: Recording,
    settlement: Option<Box<Settlement>>,
    sent: Sent,
}

/// One worker of a gateway, with a clock that the test advances.
struct Worker {
    rules: Rules,
    engine: Engine,
    clock: Clock,
    sinks: Rc<Sinks>,
    open: Vec<InProgress>,
}

impl Worker {
    fn new(setup: &Setup, log: &AccessLog) -> Self {
        let secret = Arc::new(SharedSecret::new(Secret::from_bytes([7; 16])));
        let store = Store::Memory(Arc::new(MemoryStore::new(setup.max_keys)));
        let metrics = Rc::new(Metrics::new(1000).worker());
        let seen = Seen {
            top: WorkerTop::new(&Arc::new(TopHistory::default())),
            refusals: WorkerRefusals::new(&Arc::new(RefusalRings::default())),
            forwarders: WorkerForwarders::new(&Forwarders::default(), &metrics),
            unsettled: UnsettledWarnings::default(),
            budgets: Arc::default(),
        };
        let auth = Authentication::new(SharedAuth::default(), None, AuthMetrics::new(&metrics));
        let clock = Clock::manual(Timestamp::from_micros(1_795_246_126_000_000));
        Self {
            rules: Rules::new(setup.routes.clone(), setup.client.clone(), secret),
            engine: Engine::new(RateLimiter::new(store), auth, clock.clone(), &metrics, seen),
            clock,
            sinks: Rc::new(Sinks { access_log: Some(log.worker()), tracer: None }),
            open: Vec::new(),
        }
    }

    /// Lets time pass. Requests end in the order of their ends.
    fn advance(&mut self, to_us: u64) {
        while let Some(next) = (0..self.open.len()).min_by_key(|at| self.open[*at].end_us) {
            if self.open[next].end_us > to_us {
                break;
            }
            let InProgress { end_us, mut recording, settlement, sent } = self.open.remove(next);
            self.set(end_us);
            let status = sent.status.try_into().expect("a status");
            if let Some(mut settlement) = settlement {
                let mut response = Response::new(String::new());
                *response.status_mut() = status;
                settlement.answered(&response);
                settlement.observe(&vec![0; sent.bytes]);
                record_settlement(&mut recording.record, &settlement.settle());
            }
            recording.record.status = Some(status);
        }
        self.set(to_us);
    }

    fn set(&self, to_us: u64) {
        let now_us = self.clock.now().as_micros();
        self.clock.advance(Span::from_micros(to_us.saturating_sub(now_us)));
    }

    fn judge(&mut self, sent: &Sent) {
        self.advance(self.clock.now().as_micros() + sent.gap_us);
        let mut request = Request::builder().method(sent.method).uri(format!("/{}", sent.route));
        request = request.header("host", "a").header("x-cost", u64::from(sent.cost));
        if sent.client > 0 {
            request = request.header("x-key", u64::from(sent.client));
        }
        if sent.method == "OPTIONS" {
            request = request.header("origin", "a").header("access-control-request-method", "GET");
        }
        if !sent.plan.is_empty() {
            request = request.header("x-plan", sent.plan);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let peer = IpAddr::from([192, 0, 2, sent.client]);
        let moment = self.clock.moment();
        let id = HeaderValue::from_static("id");
        let mut record = Record::new(&head, peer, moment.wall, moment.monotonic, id);
        let view = RequestView::of(&head, peer).expect("a view");
        let headroom = |_| Headroom::default();
        let Ok(placed) = Placed::find(&self.rules, &view, moment.wall) else {
            (record.outcome, record.status) = ("no_route", Some(http::StatusCode::NOT_FOUND));
            drop(Recording::new(record, &self.sinks));
            return;
        };
        let judged = self.engine.judge(&self.rules, &placed, moment, headroom, |_| true);
        let mut judgement = judged.now_or_never().expect("memory answers at once");
        let lease = std::mem::take(&mut judgement.decision.lease);
        record_decision(&mut record, self.rules.route(judgement.route), &judgement);
        let settlement = Settlement::new(&self.engine, lease);
        let recording = Recording::new(record, &self.sinks);
        let is_admitted = matches!(judgement.decision.outcome, Outcome::Admit);
        drop(judgement);
        let took_us = if is_admitted { sent.took_us } else { 0 };
        let mut sent = sent.clone();
        if !is_admitted {
            sent.status = 429;
        }
        let end_us = moment.now.as_micros() + took_us;
        self.open.push(InProgress { end_us, recording, settlement, sent });
        if !is_admitted {
            self.advance(moment.now.as_micros());
        }
    }
}

fn setup(text: &str) -> Setup {
    let parsed = Config::parse(text, "gateway.yaml", &|_| None);
    let config = parsed.unwrap_or_else(|report| panic!("{report}")).config;
    Setup {
        name: String::new(),
        routes: config.routes.into_iter().map(|route| route.rule).collect(),
        policies: config.policies,
        client: config.client,
        overflowing: Vec::new(),
        max_keys: config.store.max_keys,
    }
}

/// The report of a replay by `replayed` of the log of a run by [`LIMITS`].
fn report(all: &[Sent], names: FieldNames, replayed: &str) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("access.log");
    let settings = AccessLogSettings {
        output: Output::File(path.clone()),
        format: Some(LineFormat::Json(names)),
        has_keys: true,
        ..AccessLogSettings::default()
    };
    let log = AccessLog::open(&settings).expect("a file");
    let mut worker = Worker::new(&setup(LIMITS), &log);
    all.iter().for_each(|sent| worker.judge(sent));
    worker.advance(u64::MAX / 2);
    drop(worker);
    log.close_by(monotonic() + Duration::from_secs(10));
    let job = Job {
        inputs: vec![Input::File(path)],
        format: None,
        host: None,
        setup: setup(replayed),
        against: None,
        suggest: false,
    };
    let report = replay(&job, &mut |_, _| {}).expect("a log");
    serde_json::to_value(&report).expect("JSON")
}

/// How many decisions are repeated, and how many are different.
fn repeated(report: &Value) -> (u64, u64) {
    let count = |name: &str| report["totals"][name].as_u64().expect("a number");
    (count("repeated"), count("different"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_log_with_keys_is_replayed_exactly(
        all in prop::collection::vec(sent(), 1..120),
        names in prop::sample::select(vec![FieldNames::Own, FieldNames::Otel, FieldNames::Ecs]),
    ) {
        let report = report(&all, names, LIMITS);
        let (_, different) = repeated(&report);
        prop_assert_eq!(different, 0, "{:#}", report);
        let nothing: [Value; 0] = [];
        prop_assert_eq!(report["notes"].as_array().map(Vec::as_slice), Some(&nothing[..]));
    }
}

#[test]
fn other_limits_decide_otherwise() {
    let one = Sent {
        gap_us: 1000,
        route: 0,
        client: 1,
        plan: "",
        cost: 1,
        method: "GET",
        took_us: 0,
        status: 200,
        bytes: 0,
    };
    let all = vec![one; 8];
    let same = report(&all, FieldNames::Own, LIMITS);
    assert_eq!((repeated(&same), &same["totals"]["refused"]), ((8, 0), &3.into()));
    let other = report(&all, FieldNames::Own, &LIMITS.replace("limit: 5/10s", "limit: 6/10s"));
    // Six requests have another remainder, and one of these another result.
    assert_eq!((repeated(&other), &other["totals"]["refused"]), ((2, 6), &2.into()));
    // The shadow refuses all but three.
    assert_eq!(same["policies"][1]["refused"], 5, "{same:#}");
}

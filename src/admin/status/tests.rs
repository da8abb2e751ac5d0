//! Each reason begins, lasts and ends as its rule says, under a manual clock.

mod alerts;
mod refusals;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_core::store::{Outage, OutageCause, Standing};
use tollgate_core::time::Span;

use super::*;
use crate::admin::PutBy;
use crate::platform::OtherListener;
use crate::proxy::UpstreamSettings;
use crate::telemetry::{Forwarder, Metrics, WorkerMetrics, families};
use state::State;

/// A node whose figures a test moves.
struct Node {
    now: Timestamp,
    metrics: Metrics,
    worker: WorkerMetrics,
    state: Arc<State>,
    window: Window,
    since: BTreeMap<Reason, Timestamp>,
    failure: Option<(Timestamp, String)>,
    origin: Option<PutBy>,
    upstreams: Vec<Arc<UpstreamShared>>,
    known: Known,
}

impl Node {
    fn new() -> Self {
        let metrics = Metrics::new(1000);
        let state = Arc::<State>::default();
        metrics.add_source(Arc::clone(&state) as _);
        let window = Window::default();
        metrics.add_source(window.source());
        let mut node = Self {
            now: Timestamp::from_micros(1_795_246_126_000_000),
            worker: metrics.worker(),
            metrics,
            state,
            window,
            since: BTreeMap::new(),
            failure: None,
            origin: None,
            upstreams: Vec::new(),
            known: Known::default(),
        };
        node.after(0);
        node
    }

    fn present(&self) -> Present<'_> {
        let failure = self.failure.as_ref();
        let upstreams = &*self.upstreams;
        Present {
            failure,
            origin: self.origin.as_ref(),
            upstreams,
            known: &self.known,
            window: &self.window,
        }
    }

    /// So many seconds pass.
    fn after(&mut self, seconds: u64) {
        for _ in 0..seconds.max(1) {
            self.now = self.now.plus(Span::from_secs(seconds.min(1)));
            // Between two readings, the reasons are the same.
            if self.window.is_due(self.now) {
                self.window.read(&self.metrics.samples(), self.now);
                self.note();
            }
        }
        self.note();
    }

    fn note(&mut self) {
        let mut since = std::mem::take(&mut self.since);
        note(&mut since, &self.present(), self.now);
        self.since = since;
    }

    /// The reasons: their codes, what they are about, and for how many seconds they last.
    fn reasons(&self) -> Vec<(&'static str, &str, u64)> {
        let lasts = |since: &Timestamp| self.now.since(*since).as_secs_ceil();
        let reasons = self.since.iter();
        reasons.map(|((rule, about), since)| (RULES[*rule].code, &**about, lasts(since))).collect()
    }

    fn decisions(&self, policy: &str, outcome: &str, count: u64) {
        self.worker.counter(&families::DECISIONS, &[policy, "", outcome]).add(count);
    }

    /// Nothing is wrong, `begin` makes it wrong, and `end` well again after some time.
    fn expect(
        mut self,
        (code, about): (&'static str, &'static str),
        begin: impl Fn(&mut Self),
        end: impl Fn(&mut Self),
        ends_after_s: u64,
    ) {
        self.after(20);
        assert_eq!(self.reasons(), [], "before");
        begin(&mut self);
        self.after(5);
        let begun = self.reasons();
        assert!(matches!(begun[..], [(it, on, 0..=5)] if it == code && on == about), "{begun:?}");
        self.after(30);
        let lasts = self.reasons();
        assert!(matches!(lasts[..], [(it, _, 30..=35)] if it == code), "{lasts:?}");
        let rule = RULES.iter().find(|rule| rule.code == code).expect("a rule");
        let text = (rule.text)(&self.present(), about, 0.5);
        assert!(text.contains(about) && text.len() > 20, "{text}");
        end(&mut self);
        self.after(ends_after_s);
        assert_eq!(self.reasons(), [], "after");
    }
}

fn nothing(_: &mut Node) {}

fn standing(outages: Vec<Outage>) -> Standing {
    Standing { outages, renewals_refused: Vec::new(), nodes: 2 }
}

/// The new credentials of a store are not in use.
#[test]
fn refused_credentials_are_a_reason_until_they_are_accepted() {
    let refused = Outage::new("r:6379", OutageCause::PasswordWrong, "WRONGPASS", "compare it");
    let renewals_refused = vec![refused];
    Node::new().expect(
        ("store_credentials_refused", "r:6379"),
        |it| {
            let renewals_refused = renewals_refused.clone();
            it.known.store = Some(Standing { renewals_refused, ..standing(Vec::new()) });
        },
        |it| it.known.store = Some(standing(Vec::new())),
        1,
    );
}

#[test]
fn the_text_about_a_store_has_the_cause_and_the_remedy() {
    let mut node = Node::new();
    let outages = vec![Outage::new("r:6379", OutageCause::MemoryFull, "OOM", "raise maxmemory")];
    node.known.store = Some(standing(outages));
    let rule = RULES.iter().find(|rule| rule.code == "store_away").expect("a rule");
    let text = (rule.text)(&node.present(), "r:6379", 1.0);
    let full = OutageCause::MemoryFull.text();
    assert_eq!(text, format!("the store r:6379: {full}: OOM; raise maxmemory"));
}

#[test]
fn what_is_wrong_now_ends_with_its_cause() {
    Node::new().expect(
        ("reload_failed", ""),
        |it| it.failure = Some((it.now, "line 3: an unknown field".into())),
        |it| it.failure = None,
        1,
    );
    let down = move |it: &mut Node| {
        it.known.store =
            Some(standing(vec![Outage::new("r:6379", OutageCause::MemoryFull, "OOM", "add more")]));
    };
    Node::new().expect(
        ("store_away", "r:6379"),
        down,
        move |it| it.known.store = Some(standing(vec![])),
        1,
    );
    let breaker =
        |it: &mut Node, open| it.worker.counter(&families::BREAKER_OPEN, &["r:6379"]).set(open);
    Node::new().expect(("store_away", "r:6379"), |it| breaker(it, 2), |it| breaker(it, 0), 5);
    let others = |it: &mut Node, nodes| it.state.set("others", nodes);
    Node::new().expect(
        ("configurations_differ", "routes"),
        |it| others(it, 1.0),
        |it| others(it, 0.0),
        5,
    );
    let files = |it: &mut Node, open| {
        it.state.set("files", 1000.0);
        it.state.set("open", open);
    };
    Node::new().expect(("few_files_left", ""), |it| files(it, 801.0), |it| files(it, 800.0), 5);
    let set = |it: &Node, name, value| it.state.set(name, value);
    for (reason, name, begin, end) in [
        (("key_set_not_fetched", "http://i/keys"), "fetched", 0.0, 1.0),
        (("key_file_broken", "keys.yaml"), "key_file", 0.0, 1.0),
        (("class_file_broken", "classes.yaml"), "class_file", 0.0, 1.0),
        (("price_file_broken", "prices.yaml"), "price_file", 0.0, 1.0),
        (("password_file_broken", "htpasswd"), "password_file", 0.0, 1.0),
        (("key_left_out", "http://i/keys"), "left_out", 2.0, 0.0),
        (("key_store_away", "no_sign"), "keys_away", 1.0, 0.0),
        (("key_in_file_and_store", ""), "duplicates", 2.0, 0.0),
        (("replica_away", ""), "replicas", 1.0, 0.0),
        (("xds_away", "https://eg:18001"), "xds", 0.0, 1.0),
        (("xds_rejected", "https://eg:18001"), "xds_taken", 0.0, 1.0),
    ] {
        let begins = |it: &mut Node| set(it, name, begin);
        let ends = |it: &mut Node| set(it, name, end);
        Node::new().expect(reason, begins, ends, 5);
    }
    let address = SocketAddr::from(([127, 0, 0, 1], 80));
    let other = || [OtherListener { address, process: None }].into();
    let text = "another process listens on 127.0.0.1:80: its pid is not known, because it belongs \
                to another user or container; connections go to both";
    Node::new().expect(
        ("port_shared", text),
        move |it| it.known.other_listeners = other(),
        |it| it.known.other_listeners = Arc::default(),
        1,
    );
    let upstream = || {
        let echo = SocketAddr::from(([127, 0, 0, 1], 1));
        Arc::new(UpstreamShared::new(UpstreamSettings::new("app", Vec::new()), echo))
    };
    Node::new().expect(
        ("upstream_down", "app"),
        |it| it.upstreams.push(upstream()),
        |it| it.upstreams.clear(),
        1,
    );
}

#[test]
fn a_certificate_is_a_reason_two_weeks_before_its_end() {
    let expires_in = |it: &mut Node, s: u64| {
        let at = it.now.plus(Span::from_secs(s)).as_secs();
        it.state.set("expiry", f64::from(u32::try_from(at).expect("this century")));
    };
    let two_weeks = 14 * 86_400;
    let renewed = |it: &mut Node| expires_in(it, 80 * 86_400);
    Node::new().expect(
        ("certificate_expires", "a.test"),
        |it| expires_in(it, two_weeks),
        renewed,
        5,
    );
    let mut node = Node::new();
    expires_in(&mut node, two_weeks + 60);
    node.after(50);
    assert_eq!(node.reasons(), []);
}

#[test]
fn a_certificate_is_a_reason_before_its_beginning() {
    let starts_in = |it: &mut Node, s: u64| {
        let at = it.now.plus(Span::from_secs(s)).as_secs();
        it.state.set("start", f64::from(u32::try_from(at).expect("this century")));
    };
    Node::new().expect(
        ("certificate_not_yet_valid", "a.test"),
        |it| starts_in(it, 86_400),
        |it| it.state.set("start", 1.0),
        5,
    );
}

#[test]
fn an_expired_certificate_is_said_to_have_expired() {
    let rule = RULES.iter().find(|rule| rule.code == "certificate_expires").expect("a rule");
    let window = Window::default();
    let upstreams = [];
    let known = Known::default();
    let present = Present {
        failure: None,
        origin: None,
        upstreams: &upstreams,
        known: &known,
        window: &window,
    };
    for (left_s, text) in [
        (13.5 * 86_400.0, "the certificate a.test expires in 13 days"),
        (7200.0, "the certificate a.test expires in 2 hours"),
        (-86_400.0, "the certificate a.test has expired 24 hours ago"),
        (-5.0 * 86_400.0, "the certificate a.test has expired 5 days ago"),
    ] {
        assert_eq!((rule.text)(&present, "a.test", left_s), text);
    }
}

#[test]
fn what_must_not_happen_is_a_reason_for_the_time_of_its_rule() {
    Node::new().expect(
        ("failed_open", "p"),
        |it| it.decisions("p", "failed_open", 1),
        nothing,
        300,
    );
    Node::new().expect(
        ("descriptors_alone", "p"),
        |it| it.worker.counter(&families::RATE_LIMIT_ALONE, &["edge", "p"]).add(2),
        nothing,
        300,
    );
    Node::new().expect(
        ("upstream_sends_excess", "app"),
        |it| it.worker.counter(&families::UPSTREAM_EXCESS, &["app"]).add(1),
        nothing,
        900,
    );
    Node::new().expect(
        ("upstream_queue_refuses", "app"),
        |it| it.worker.counter(&families::UPSTREAM_QUEUE_REFUSED, &["app", "full"]).add(1),
        nothing,
        300,
    );
    Node::new().expect(
        ("bans_not_held", ""),
        |it| it.worker.counter(&families::UNHELD_BANS, &[]).add(1),
        nothing,
        300,
    );
    Node::new().expect(
        ("limits_ignored", "p"),
        |it| it.worker.counter(&families::IGNORED_LIMITS, &["p"]).add(1),
        nothing,
        900,
    );
    Node::new().expect(
        ("authorizer_fails", "sso"),
        |it| it.worker.counter(&families::AUTHORIZER_FAILURES, &["sso", "timeout"]).add(1),
        nothing,
        300,
    );
    Node::new().expect(
        ("store_overloaded", "r:6379"),
        |it| it.worker.counter(&families::STORE_OVERLOADS, &["r:6379"]).add(1),
        nothing,
        300,
    );
    Node::new().expect(
        ("store_calls_fail", "foreign_data"),
        |it| it.worker.counter(&families::STORE_CALL_ERRORS, &["r:6379", "foreign_data"]).add(1),
        nothing,
        300,
    );
    Node::new().expect(("forgets_limits", ""), |it| it.state.set("evictions", 3.0), nothing, 900);
    Node::new().expect(("broken_promise", "p"), |it| it.state.set("broken", 1.0), nothing, 900);
    Node::new().expect(
        ("loses_log_lines", "access"),
        |it| it.state.set("lines", 9.0),
        nothing,
        300,
    );
}

#[test]
fn shares_are_those_of_five_minutes() {
    let by_source = |it: &Node, source, count| {
        it.worker.counter(&families::DECISIONS_BY_SOURCE, &["p", source]).add(count);
    };
    let node = Node::new();
    by_source(&node, "store", 9899);
    let mut exact = Node::new();
    by_source(&exact, "store", 9900);
    by_source(&exact, "local", 100);
    exact.after(5);
    assert_eq!(exact.reasons(), [], "1 % is not above 1 %");
    let local = |it: &mut Node| by_source(it, "local", 101);
    node.expect(("decides_locally", ""), local, |it| by_source(it, "store", 100_000), 340);

    let requests = |it: &Node, status, count: u64| {
        let labels = ["GET", status, "/*", "r", ""];
        let whole = it.worker.histogram(&families::REQUEST_DURATION, &labels);
        (0..count).for_each(|_| whole.observe(1));
    };
    let node = Node::new();
    requests(&node, "200", 97);
    let fails = |it: &mut Node| requests(it, "503", 3);
    node.expect(("requests_fail", "r"), fails, |it| requests(it, "404", 1000), 340);
}

#[test]
fn a_proxy_that_is_not_trusted_is_a_reason_if_it_sends_a_part_of_all_requests() {
    let requests = |it: &Node, unbelieved: u64, count: u64| {
        let whole =
            it.worker.histogram(&families::REQUEST_DURATION, &["GET", "200", "/*", "r", ""]);
        (0..count).for_each(|_| whole.observe(1));
        it.worker.counter(&families::UNBELIEVED_REQUESTS, &[]).add(unbelieved);
    };
    let forwarder = |clients| {
        let peer = [10, 0, 0, 5].into();
        vec![Forwarder { peer, field: "X-Forwarded-For", clients }]
    };
    let mut forged = Node::new();
    forged.known.forwarders = forwarder(100);
    requests(&forged, 10, 100);
    forged.after(5);
    assert_eq!(forged.reasons(), [], "10 % is not above 10 %");
    Node::new().expect(
        ("proxy_not_trusted", "10.0.0.5"),
        |it| {
            it.known.forwarders = forwarder(14);
            requests(it, 98, 100);
        },
        |it| it.known.forwarders.clear(),
        1,
    );
}

#[test]
fn a_busy_worker_and_slow_decisions_are_found() {
    let mut node = Node::new();
    let busy = |it: &mut Node, percent: u64| {
        for _ in 0..60 {
            it.worker.counter(&families::WORKER_BUSY, &["1"]).add(percent * 50_000);
            it.after(5);
        }
    };
    busy(&mut node, 84);
    assert_eq!(node.reasons(), []);
    busy(&mut node, 90);
    assert!(matches!(node.reasons()[..], [("worker_busy", "1", 1..)]), "{:?}", node.reasons());
    busy(&mut node, 80);
    assert_eq!(node.reasons(), []);

    let decisions = |it: &mut Node, ms: u64, count: u64| {
        let time = it.worker.histogram(&families::DECISION_DURATION, &["redis"]);
        (0..count).for_each(|_| time.observe(ms * 1_000_000));
    };
    Node::new().expect(
        ("slow_decisions", ""),
        |it| {
            decisions(it, 1, 950);
            decisions(it, 24, 50);
        },
        |it| decisions(it, 1, 100_000),
        340,
    );
    // One decision of few says little.
    let mut node = Node::new();
    decisions(&mut node, 1, 98);
    decisions(&mut node, 40, 1);
    node.after(5);
    assert_eq!(node.reasons(), []);
    decisions(&mut node, 40, 1);
    node.after(5);
    assert!(matches!(node.reasons()[..], [("slow_decisions", "", 0..=5)]));
    // 99 of 100 lie below 10 ms, and the rest above 25 ms.
    let mut node = Node::new();
    decisions(&mut node, 1, 995);
    decisions(&mut node, 40, 5);
    node.after(5);
    assert_eq!(node.reasons(), []);
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let mut node = Node::new();
    node.after(3600);
    assert!(node.window.len() <= 21, "{}", node.window.len());
}

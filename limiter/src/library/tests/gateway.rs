//! The decisions of the library are those of a gateway's worker for the same requests.

use proptest::prelude::*;
use tollgate_core::decision::{self, HeaderSettings, HeaderWriter, Headroom, RateLimiter};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::{ClientSettings, Clients};
use tollgate_core::request::RequestView;
use tollgate_core::store::{MemoryStore, Store as WorkerStore};

use super::*;

/// A request of one of a few clients, some time after the one before.
#[derive(Clone, Debug)]
struct Asked {
    peer: u8,
    tenant: Option<u8>,
    plan: bool,
    method: &'static str,
    after_ms: u64,
    /// The policies, by bits.
    policies: u8,
}

fn asked() -> impl Strategy<Value = Asked> {
    let method = prop::sample::select(vec!["GET", "HEAD", "OPTIONS"]);
    let parts = (0..3_u8, prop::option::of(0..2_u8), any::<bool>(), method, 0..3000_u64, 1..32_u8);
    parts.prop_map(|(peer, tenant, plan, method, after_ms, policies)| Asked {
        peer,
        tenant,
        plan,
        method,
        after_ms,
        policies,
    })
}

impl Asked {
    fn head(&self) -> Head {
        let mut request = Request::builder().method(self.method).uri("/").header("host", "a.test");
        if let Some(tenant) = self.tenant {
            request = request.header("x-tenant", tenant.to_string());
        }
        if self.plan {
            request = request.header("x-plan", "pro");
        }
        if self.method == "OPTIONS" {
            let preflight = "access-control-request-method";
            request = request.header("origin", "https://a.test").header(preflight, "PUT");
        }
        request.body(()).unwrap().into_parts().0
    }

    fn peer(&self) -> IpAddr {
        [192, 0, 2, self.peer].into()
    }
}

/// Policies of all kinds, with limits that a few requests reach.
fn policies() -> [Policy; 5] {
    let tenant = || Key::Header("x-tenant".into());
    let plans = Plans::by(Key::Header("x-plan".into())).limit("pro", limit("5/10s"));
    [
        Policy::new("a", Key::Ip, limit("4/10s")).soft(50),
        Policy::new("b", tenant(), limit("3/10s"))
            .algorithm(Algorithm::TokenBucket)
            .burst(2)
            .plans(plans)
            .on_missing_key(OnMissingKey::Skip),
        Policy::new("c", Key::Global, limit("6/5s")).buckets(5).exempt_method(http::Method::HEAD),
        Policy::new("d", Key::All(vec![Key::Ip, tenant()]), limit("2/10s"))
            .algorithm(Algorithm::SlidingLog)
            .on_missing_key(OnMissingKey::Deny),
        Policy::new("e", Key::Ip, limit("1/10s")).cost(2).shadow(),
    ]
}

/// What a client is told.
fn told(outcome: &decision::Outcome<&Arc<tollgate_core::policy::Policy>>) -> Outcome {
    match outcome {
        decision::Outcome::Admit => Outcome::Admit { delay: Duration::ZERO },
        decision::Outcome::Refuse(retry) => {
            Outcome::Refuse { retry: super::super::report::wait(*retry) }
        }
        decision::Outcome::Unavailable(_) => Outcome::Unavailable,
        _ => Outcome::KeyMissing,
    }
}

proptest! {
    #[test]
    fn every_decision_is_that_of_a_gateway(requests in prop::collection::vec(asked(), 1..60)) {
        let clock = Clock::manual();
        let mut builder = Limiter::builder().clock(clock.clone());
        for policy in policies() {
            builder = builder.policy(policy);
        }
        let compiled = builder.compile().unwrap().0;
        let limiter = builder.build().unwrap();
        let handles = ["a", "b", "c", "d", "e"].map(|name| limiter.policy(name).unwrap());
        let worker = RateLimiter::new(WorkerStore::Memory(Arc::new(MemoryStore::new(1000))));
        let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
        let clients = Clients::new(ClientSettings::default(), [], secret);
        let writer = HeaderWriter::new(&HeaderSettings::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for request in &requests {
            clock.advance(Duration::from_millis(request.after_ms));
            let has = |index: &usize| request.policies >> index & 1 == 1;
            let chosen: Vec<_> = (0..5).filter(has).map(|index| handles[index].clone()).collect();
            let own: Vec<_> = (0..5).filter(has).map(|it| Arc::clone(&compiled[it])).collect();
            let head = request.head();
            let ours = runtime.block_on(limiter.check_request(&chosen, &head, Some(request.peer())));
            let view = RequestView::of(&head, request.peer()).unwrap();
            let now = clock.time().now();
            let subject = clients.subject(&view, None, now);
            let decided = worker.decide(&own, &subject, Headroom::default(), now);
            let theirs = runtime.block_on(decided);
            prop_assert_eq!(ours.outcome(), told(&theirs.outcome), "{:?}", request);
            let mut our_fields = HeaderMap::new();
            let mut their_fields = HeaderMap::new();
            ours.write_headers(&mut our_fields);
            writer.write(&theirs, head.headers.contains_key("origin"), &mut their_fields);
            prop_assert_eq!(our_fields, their_fields, "{:?}", request);
        }
    }
}

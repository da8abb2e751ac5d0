//! Decisions whose charges may be given back before the response.

use super::*;
use crate::algorithm::{Concurrency, Quota, TokenBucket};

impl Gate {
    /// The lease of an admitted request, which is open for all policies.
    async fn open(&self) -> Lease {
        let list = self.claims(&[]);
        let lacking = Lacking::new();
        let mut claims = Claims { list, lacking, settles: false }.settling();
        let now = Timestamp::from_micros(0);
        let mut decision = self.limiter.judge().judge(&mut claims, self.room, now).await;
        assert!(is_admitted(&decision));
        decision.lease.open_all(&decision.reports);
        decision.lease
    }
}

fn gate() -> Gate {
    let in_flight = Algorithm::Concurrency(Concurrency::new(1).unwrap());
    Gate::new([policy("plain", 9, DAY), Policy::new("held", KeyExpr::Global, in_flight)])
}

#[tokio::test]
async fn all_that_was_charged_can_be_given_back() {
    let gate = gate();
    let lease = gate.open().await;
    assert_eq!(gate.remaining().await, [8, 0]);
    let charged: Vec<_> = lease.charged().map(|(policy, units)| (&*policy.name, units)).collect();
    assert_eq!(charged, [("plain", 1)]);
    gate.limiter.give_back(&lease, Timestamp::from_micros(1));
    assert_eq!(gate.remaining().await, [9, 1]);
}

/// Units of a bucket leak while the request waits. The rest of it is not used up by requests that are
/// not processed.
#[tokio::test]
async fn a_bucket_gets_back_what_has_leaked_since() {
    let minute = Quota::new(60, Span::from_secs(60)).unwrap();
    let bucket = Algorithm::TokenBucket(TokenBucket::new(minute, 2).unwrap());
    let gate = Gate::new([Policy::new("bucket", KeyExpr::Global, bucket)]);
    let first = gate.open().await;
    let second = gate.open().await;
    assert_eq!(gate.remaining().await, [0]);
    let later = Timestamp::from_micros(900_000);
    gate.limiter.give_back(&first, later);
    gate.limiter.give_back(&second, later);
    assert_eq!(gate.remaining().await, [2]);
}

#[tokio::test]
async fn what_is_closed_stays_charged_and_units_in_flight_end_with_the_request() {
    let gate = gate();
    let mut lease = gate.open().await;
    lease.close_known();
    assert_eq!(lease.policies().count(), 1);
    gate.end(lease, &Ending::default());
    assert_eq!(gate.remaining().await, [8, 1]);
}

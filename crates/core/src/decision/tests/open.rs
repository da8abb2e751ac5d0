//! Decisions whose charges may be given back before the response.

use super::*;
use crate::algorithm::Concurrency;

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
    gate.limiter.end_known(&lease, &lease.all_cost(0), Timestamp::from_micros(1));
    assert_eq!(gate.remaining().await, [9, 1]);
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

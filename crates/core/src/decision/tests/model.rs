//! Random policies of all kinds together agree with plain sums.

use http::StatusCode;
use proptest::prelude::*;

use super::*;
use crate::algorithm::testing::cases;
use crate::policy::{Count, Elastic};

/// The limits of one policy, and what it has counted, within one window.
#[derive(Clone, Debug)]
struct Sum {
    limit: u64,
    soft: u64,
    beyond: Option<u64>,
    is_shadow: bool,
    counts_errors: bool,
    used: u64,
    used_beyond: u64,
}

impl Sum {
    fn policy(&self, name: usize) -> Policy {
        let elastic = |beyond| Elastic {
            beyond: fixed(beyond, DAY),
            latency_below: Some(Span::SECOND),
            in_flight_below_percent: None,
        };
        let statuses = Count::statuses(vec![StatusCode::NOT_FOUND]);
        Policy {
            soft: (self.soft > self.limit).then(|| fixed(self.soft, DAY)),
            elastic: self.beyond.map(elastic),
            mode: if self.is_shadow { Mode::Shadow } else { Mode::Enforce },
            count: if self.counts_errors { statuses } else { Count::All },
            ..policy(&name.to_string(), self.limit, DAY)
        }
    }

    fn fits(&self, cost: u64) -> bool {
        cost == 0 || self.used + cost <= self.soft
    }

    fn fits_beyond(&self, cost: u64) -> bool {
        self.beyond.is_some_and(|beyond| self.used_beyond + cost <= beyond)
    }

    fn take(&mut self, cost: u64) -> &'static str {
        if self.fits(cost) {
            self.used += cost;
            if self.used > self.limit && cost > 0 { "soft" } else { "admitted" }
        } else if self.is_shadow {
            "shadow_refused"
        } else {
            self.used_beyond += cost;
            "elastic"
        }
    }
}

/// The expected ruling of each policy, and whether the request is admitted.
fn expected(sums: &mut [Sum], costs: &[u64], has_room: bool) -> (bool, Vec<&'static str>) {
    let mut refusing =
        sums.iter().zip(costs).filter(|(sum, cost)| !sum.is_shadow && !sum.fits(**cost));
    if refusing.all(|(sum, cost)| has_room && sum.fits_beyond(*cost)) {
        return (true, sums.iter_mut().zip(costs).map(|(sum, cost)| sum.take(*cost)).collect());
    }
    let say = |(sum, cost): (&Sum, &u64)| match (sum.fits(*cost), sum.is_shadow) {
        (true, _) => "fits",
        (false, true) => "shadow_refused",
        (false, false) => "refused",
    };
    (false, sums.iter().zip(costs).map(say).collect())
}

fn sums() -> impl Strategy<Value = Sum> {
    let beyond = prop::option::of(1..12_u64);
    (1..12_u64, 0..4_u64, beyond, prop::bool::weighted(0.25), any::<bool>()).prop_map(
        |(limit, margin, beyond, is_shadow, counts_errors)| Sum {
            limit,
            soft: limit + margin,
            beyond,
            is_shadow,
            counts_errors,
            used: 0,
            used_beyond: 0,
        },
    )
}

/// One request: its costs, whether there is room, and whether it ends well before the next.
type Step = ([u64; 4], bool, Option<bool>);

async fn follow(mut sums: Vec<Sum>, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut gate = Gate::new(sums.iter().enumerate().map(|(name, sum)| sum.policy(name)));
    for (costs, has_room, ends_well) in steps {
        gate.room.latency = has_room.then_some(Span::ZERO);
        let decision = gate.decide_at_costs(&costs, 0).await;
        let (admitted, said) = expected(&mut sums, &costs, has_room);
        prop_assert_eq!(is_admitted(&decision), admitted);
        for ((report, said), sum) in decision.reports.iter().zip(&said).zip(&sums) {
            let is_as_said = match *said {
                "fits" => report.verdict.admitted,
                said => report.outcome() == said,
            };
            prop_assert!(is_as_said, "{} instead of {said}", report);
            prop_assert_eq!(report.verdict.limit, sum.limit);
            prop_assert_eq!(report.verdict.remaining, sum.limit.saturating_sub(sum.used));
            prop_assert_eq!(report.used, sum.used);
        }
        let Some(ends_well) = ends_well else { continue };
        let status = if ends_well { StatusCode::OK } else { StatusCode::NOT_FOUND };
        gate.end(decision.lease, &Ending { status: Some(status), ..Ending::default() });
        for ((sum, said), cost) in sums.iter_mut().zip(&said).zip(costs) {
            if admitted && ends_well && sum.counts_errors {
                match *said {
                    "elastic" => sum.used_beyond -= cost,
                    "shadow_refused" => {}
                    _ => sum.used -= cost,
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 4, ..cases() })]

    #[test]
    fn all_consume_or_none_whatever_the_policies_are(
        sums in prop::collection::vec(sums(), 1..=4),
        steps in prop::collection::vec(
            (prop::array::uniform4(0..5_u64), any::<bool>(), any::<Option<bool>>()),
            1..30,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(follow(sums, steps))?;
    }
}

//! Preflights: requests that a browser sends before a request to another origin (Fetch
//! Standard, section 3.2.2).
//!
//! A preflight carries no credentials, so most policies find no key in it, and no person
//! has decided to send it. So by default it is not counted with the client's requests. It
//! is still bounded: it counts with the other preflights from its address, under a limit
//! that is a multiple of the policy's.

use std::sync::Arc;

use super::{KeyExpr, Policy, Preflights, Subject, counter};

/// The number of preflights that one address may send for each request that the policy
/// allows. Many clients may share one address, and each request has at most one preflight.
const PREFLIGHTS_FOR_A_REQUEST: u64 = 10;

impl Policy {
    /// The same policy, whose preflights are not counted with other requests.
    #[must_use]
    pub fn sparing_preflights(self) -> Self {
        if self.is_unlimited {
            return Self { preflights: Preflights::Exempt, ..self };
        }
        let limit = self.algorithm.limit().saturating_mul(PREFLIGHTS_FOR_A_REQUEST);
        let larger = self.algorithm.with_limit(limit);
        let algorithm = larger.unwrap_or_else(|_| self.algorithm.clone());
        let bounding = Self {
            counter: counter::preflights_of(&self.name, &algorithm),
            exempt: self.exempt.clone(),
            response: self.response.clone(),
            consistency: self.consistency,
            mode: self.mode,
            preflights: Preflights::Counted,
            ..Self::new(&self.name, KeyExpr::Ip, algorithm)
        };
        Self { preflights: Preflights::Bounded(Arc::new(bounding)), ..self }
    }
}

impl Subject<'_, '_> {
    /// The policy that judges this request instead of `policy`.
    pub(crate) fn judging<'p>(&self, policy: &'p Arc<Policy>) -> &'p Arc<Policy> {
        match &policy.preflights {
            Preflights::Bounded(bounding) if self.is_preflight() => bounding,
            _ => policy,
        }
    }

    /// See [`RequestView::is_preflight`](crate::request::RequestView::is_preflight).
    pub(super) fn is_preflight(&self) -> bool {
        self.request.is_preflight()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::policy::tests::{Case, policy, with};
    use crate::policy::{Exemption, KeyFor};

    const ASKS: [(&str, &str); 2] =
        [("origin", "https://a.test"), ("access-control-request-method", "PUT")];

    fn preflight() -> Case {
        Case { method: Method::OPTIONS, ..with(&ASKS) }
    }

    fn judging(case: &Case, policy: Policy) -> (u64, KeyFor) {
        let policy = Arc::new(policy);
        case.ask(&policy, |subject| {
            let judging = subject.judging(&policy);
            (judging.algorithm.limit(), subject.key(judging))
        })
    }

    #[test]
    fn preflights_are_counted_by_address_and_separately() {
        let by_user = || policy("header:x-user").sparing_preflights();
        let (limit, key) = judging(&preflight(), by_user());
        assert_eq!(limit, 1000, "ten times the limit of the policy");
        let KeyFor::Key(key) = key else { panic!("{key:?}") };
        let by_address = policy("ip");
        let KeyFor::Key(own) =
            preflight().key(&Policy { preflights: Preflights::Counted, ..by_address })
        else {
            panic!("every request has an address")
        };
        assert_eq!(key.principal, own.principal);
        assert_ne!(key.counter, own.counter);
        assert_eq!(judging(&with(&[("x-user", "ann")]), by_user()).0, 100);
    }

    #[test]
    fn a_request_that_a_backend_may_read_as_another_is_not_a_preflight() {
        let overriding = [ASKS[0], ASKS[1], ("x-http-method-override", "POST")];
        let cases = [
            Case { method: Method::OPTIONS, ..with(&overriding) },
            Case { has_content: true, ..preflight() },
            Case { method: Method::OPTIONS, ..with(&ASKS[..1]) },
            Case { method: Method::OPTIONS, ..with(&ASKS[1..]) },
            with(&ASKS),
        ];
        for case in cases {
            assert_eq!(judging(&case, policy("ip").sparing_preflights()).0, 100);
            assert!(matches!(case.key(&policy("ip")), KeyFor::Key(_)));
        }
    }

    #[test]
    fn a_policy_may_count_preflights_or_have_no_limit_for_them() {
        let counting = Policy { preflights: Preflights::Counted, ..policy("ip") };
        assert_eq!(judging(&preflight(), counting).0, 100);
        let unlimited = Policy::unlimited("p", KeyExpr::Ip).sparing_preflights();
        assert_eq!(judging(&preflight(), unlimited).1, KeyFor::Exempt(Exemption::Preflight));
    }
}

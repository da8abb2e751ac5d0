//! The second decision on a request whose route has an authorizer: that of the policies that
//! need the answer.

use tollgate_core::decision::{Decision, Headroom, Outcome};
use tollgate_core::policy::AccessVerdicts;
use tollgate_core::request::RequestView;
use tollgate_core::routes::Rules;
use tollgate_core::time::Moment;

use super::{Again, AskedPolicies, Credential, Deciding, Engine, Judgement, Named};

impl Engine {
    /// Lets the policies that need the answer of the authorizer judge a request once more. The
    /// authorizer has given the request its fields. The request counts now, which may be long after it
    /// has arrived.
    pub async fn judge_authorized<'r>(
        &self,
        rules: &'r Rules,
        again: Again,
        request: &RequestView<'_>,
        headroom: Headroom,
    ) -> Judgement<'r> {
        let Again { route: index, has_failed } = again;
        let Moment { mut now, wall, .. } = self.clock.moment();
        let subject = rules.subject(request, index, wall);
        let route = rules.route(index);
        let Deciding { limiter, auth, timer, seen, .. } = &*self.deciding;
        if subject.has_passwords() {
            Box::pin(auth.check_password(route, &subject, now)).await;
        }
        let begun = timer.begin();
        now = self.look_up_key(rules, index, &subject, now).await;
        let second = route.policies.iter().filter(|policy| policy.needs_authorizer());
        // The password may not have been checked before, because the check had no place.
        let failure = match subject.has_passwords() && !has_failed {
            true => auth.count_password(route, &subject, now),
            false => None,
        };
        let has_failed = has_failed || failure.is_some();
        let refusal = failure.and_then(|failure| failure.refusal);
        let mut decision = match refusal {
            Some(refusal) => Decision::uncounted(Outcome::Unauthenticated(refusal)),
            None if route.may_delay() || route.has_bounded_upstream => {
                limiter.decide_open(second, &subject, headroom, now).await
            }
            None => limiter.decide(second, &subject, headroom, now).await,
        };
        let store_us = timer.end(begun);
        seen.observe(&decision, &subject, route, request, wall);
        self.warn(&mut decision);
        let client_ip = subject.client_ip();
        Judgement {
            route: index,
            branch: 0,
            client_ip,
            class: subject.class(),
            affinity: None,
            access: AccessVerdicts::default(),
            credential: Credential::default(),
            decision,
            asked: AskedPolicies::of(refusal, false),
            now,
            store_us,
            is_preflight: false,
            named: Named::of(subject.agent(), None),
            awaits_body: false,
            has_failed,
        }
    }
}

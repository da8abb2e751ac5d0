//! `plans`: other limits for some clients.

use super::Compiler;
use crate::algorithm::Algorithm;
use crate::config::field::{Either, Entries, Field, Spanned};
use crate::config::raw::{RawClient, RawKey, RawKeyList, RawPlans, RawPolicy};
use crate::config::scalar::{Allowance, KeyWord};
use crate::policy::{KeyExpr, Plan, Plans};

/// A plan is looked for in every request.
const MAX_PLANS: usize = 64;

impl Compiler<'_> {
    /// The plans of the policy `raw`, whose own limit is `own`.
    pub(super) fn plans(
        &self,
        raw: &RawPolicy,
        own: Option<&Algorithm>,
        client: Option<&RawClient>,
    ) -> Option<Plans> {
        let plans = raw.plans.given()?;
        let Spanned { value: RawPlans { from, limits }, span, .. } = plans;
        self.required(from, *span, "the plans have no \"from\"", "like from: jwt:plan");
        let advice = "like limits: { pro: 1000/minute, internal: unlimited }";
        self.required(limits, *span, "the plans have no \"limits\"", advice);
        let from = from.given().and_then(|from| self.plan_source(from, client));
        let limits = limits.given().map(|limits| {
            let Entries(entries) = &limits.value;
            if let Some(from) = &from {
                entries.iter().for_each(|(name, _)| self.check_plan_place(name, from));
            }
            self.plan_limits(limits, raw, own)
        });
        Some(Plans { from: from?, limits: limits? })
    }

    fn plan_source(&self, raw: &Spanned<RawKey>, client: Option<&RawClient>) -> Option<KeyExpr> {
        let key = self.key(raw, client, 0)?;
        self.check_plan_source(raw, client.is_none_or(RawClient::trusts_nobody));
        Some(key)
    }

    /// Behind a proxy, a field of a request may say what the proxy has found out.
    /// A gateway that is `exposed` finds there what the client has written.
    fn check_plan_source(&self, raw: &Spanned<RawKey>, exposed: bool) {
        match &raw.value.0 {
            Either::Short(KeyWord(KeyExpr::Header(_) | KeyExpr::Cookie(_) | KeyExpr::Query(_)))
                if exposed =>
            {
                let message = "every client can write this itself, and so choose its plan";
                let advice = "take what is verified, like jwt:plan; or name the proxies that \
                              write it in client.trusted_proxies";
                self.problems.warning(raw.span, message, advice);
            }
            Either::Short(_) => {}
            Either::Long(RawKeyList { first, all }) => {
                if let Some(all) = all.given() {
                    let message = "the name of a plan is one value, not several together";
                    self.problems.error(all.span, message, "write one key, or first: [...]");
                }
                first.items().for_each(|key| self.check_plan_source(key, exposed));
            }
        }
    }

    fn plan_limits(
        &self,
        limits: &Spanned<Entries<Allowance>>,
        policy: &RawPolicy,
        own: Option<&Algorithm>,
    ) -> Vec<(Box<str>, Plan)> {
        let Entries(entries) = &limits.value;
        if !(1..=MAX_PLANS).contains(&entries.len()) {
            let message = format!("a policy has from 1 to {MAX_PLANS} plans");
            self.problems.error(limits.span, &message, "");
        }
        let plans = entries.iter().filter_map(|(name, limit)| {
            self.check_name(name, "plan");
            let plan = self.plan(name, limit, policy, own)?;
            Some((name.value.as_str().into(), plan))
        });
        plans.collect()
    }

    fn plan(
        &self,
        name: &Spanned<String>,
        limit: &Field<Allowance>,
        policy: &RawPolicy,
        own: Option<&Algorithm>,
    ) -> Option<Plan> {
        let given = limit.given()?;
        let limit = match given.value {
            Allowance::Unlimited => return Some(Plan::Unlimited),
            Allowance::Limited(limit) => limit,
        };
        let whose = format!("the plan \"{}\"", name.shown());
        let own = own?;
        let others = if policy.is_unlimited() { "the first plan" } else { "the policy's own" };
        let units = self.same_window((limit, given.span), own, &whose, others)?;
        let algorithm = self.with_limit(own, units, given.span)?;
        let soft = self.soft(&policy.soft, &algorithm);
        self.warn_never_passes(&policy.cost, soft.as_ref().unwrap_or(&algorithm), &whose);
        Some(Plan::Limited { algorithm, soft })
    }
}

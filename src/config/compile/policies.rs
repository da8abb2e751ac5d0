//! `policies`: one limit each.

use std::sync::Arc;

use super::Compiler;
use super::key::{NeededParam, needed_params};
use crate::config::field::{Field, Spanned};
use crate::config::model::StoreSettings;
use crate::config::raw::{RawClient, RawConfig, RawExempt, RawMissingKey, RawMode, RawPolicy};
use crate::policy::{ClientSettings, Cost, Exempt, KeyExpr, MissingKey, Mode, Policy, Preflights};
use crate::terms::StoreMode;

/// A policy's name, and the policy unless it is broken.
pub(super) struct Named {
    pub(super) name: String,
    /// What a route's path must offer.
    pub(super) params: Vec<NeededParam>,
    /// It is checked like the others, and judges no request.
    pub(super) off: bool,
    pub(super) compiled: Option<Arc<Policy>>,
}

impl Compiler<'_> {
    pub(super) fn policies(
        &self,
        config: &RawConfig,
        store: &StoreSettings,
        settings: &ClientSettings,
    ) -> Vec<Named> {
        let client = config.client.value();
        let usual = store.redis.as_ref().map_or_else(StoreMode::default, |redis| redis.mode);
        let entries = config.policies.value().map_or(&[][..], |entries| &entries.0);
        let named = entries.iter().map(|(name, policy)| {
            self.check_name(name, "policy");
            let raw = policy.value();
            let plans = raw.and_then(|raw| raw.plans.value());
            let keys = [raw.map(|raw| &raw.key), plans.map(|plans| &plans.from)];
            let keys = keys.into_iter().flatten().filter_map(Field::given);
            Named {
                name: name.value.clone(),
                params: keys.flat_map(needed_params).collect(),
                off: raw.is_some_and(RawPolicy::is_off),
                compiled: raw.and_then(|raw| {
                    let terms = self.terms(raw, config, usual);
                    let overrides = self.overridable(&name.value, raw, config);
                    let policy = self.policy(name, raw, client)?;
                    self.check_challenge(&raw.missing_key, &policy.key, settings);
                    let policy = Policy { terms, overrides, ..policy };
                    Some(Arc::new(match raw.exempt_preflights.value() {
                        Some(false) => Policy { preflights: Preflights::Counted, ..policy },
                        _ => policy.sparing_preflights(),
                    }))
                }),
            }
        });
        named.collect()
    }

    fn policy(
        &self,
        name: &Spanned<String>,
        raw: &RawPolicy,
        client: Option<&RawClient>,
    ) -> Option<Policy> {
        let lacks = |field: &str| format!("the policy \"{}\" has no \"{field}\"", name.value);
        self.required(&raw.limit, name.span, &lacks("limit"), "like limit: 100/minute");
        self.required(&raw.key, name.span, &lacks("key"), "like key: ip");
        self.check_combinations(raw);
        self.check_unlimited(raw);
        let key = raw.key.given().and_then(|key| self.key(key, client, 0));
        let algorithm = self.algorithm(raw);
        let response = raw.response.value().map(|response| self.template(response));
        let exempt = raw.exempt.value();
        let exempt = exempt.map(|exempt| self.exempt(exempt, client)).unwrap_or_default();
        let count = self.counted(&raw.count);
        let penalty = self.penalty(&raw.penalty);
        let own = algorithm.as_ref();
        let cost = self.cost(&raw.cost, own, client);
        let limiting = own.filter(|_| !raw.is_unlimited());
        let soft = limiting.and_then(|own| self.soft(&raw.soft, own));
        if let Some(admitting) = soft.as_ref().or(limiting) {
            self.warn_never_passes(&raw.cost, admitting, "the limit");
        }
        let plans = self.plans(raw, own, client);
        let elastic = self.elastic(raw, own);
        let base = if raw.is_unlimited() && raw.counted_limit().is_none() {
            Policy::unlimited(&name.value, key?)
        } else {
            let is_unlimited = raw.is_unlimited();
            Policy { is_unlimited, ..Policy::new(&name.value, key?, algorithm?) }
        };
        Some(Policy {
            missing_key: raw.missing_key.value().map_or_else(MissingKey::default, missing_key),
            exempt,
            response,
            cost: cost.unwrap_or(Cost::Fixed(1)),
            count,
            mode: raw.mode.value().map_or_else(Mode::default, mode),
            soft,
            plans,
            penalty,
            elastic,
            ..base
        })
    }

    /// A client that is asked for a bearer token must be able to mend its request by one.
    fn check_challenge(&self, raw: &Field<RawMissingKey>, key: &KeyExpr, client: &ClientSettings) {
        if let Some(given) = raw.given()
            && given.value == RawMissingKey::Unauthorized
            && !key.comes_by_token(client)
        {
            let message = "\"unauthorized\" asks clients for a bearer token, which would not give them this key";
            let advice =
                "write deny, or a key that is taken from a token: user, jwt:CLAIM, api_key";
            self.problems.error(given.span, message, advice);
        }
    }

    fn exempt(&self, raw: &RawExempt, client: Option<&RawClient>) -> Exempt {
        Exempt {
            ips: raw.ips.items().map(|block| block.value.0).collect(),
            places: self.exempt_places(raw, client),
            methods: raw.methods.items().map(|method| method.value.0.clone()).collect(),
            headers: self.header_values(&raw.headers),
        }
    }
}

impl RawPolicy {
    /// Whether it judges no request.
    pub(super) fn is_off(&self) -> bool {
        self.mode.value() == Some(&RawMode::Off)
    }
}

fn missing_key(raw: &RawMissingKey) -> MissingKey {
    match raw {
        RawMissingKey::Ip => MissingKey::Ip,
        RawMissingKey::Skip => MissingKey::Skip,
        RawMissingKey::Deny => MissingKey::Deny,
        RawMissingKey::Unauthorized => MissingKey::Unauthorized,
    }
}

/// One that is off is on no route, and so it does not matter what it is.
fn mode(raw: &RawMode) -> Mode {
    match raw {
        RawMode::Enforce | RawMode::Off => Mode::Enforce,
        RawMode::Shadow => Mode::Shadow,
    }
}

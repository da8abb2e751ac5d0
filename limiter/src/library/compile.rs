//! From a policy as an application writes it to one that judges requests. The same settings in
//! a `gateway.yaml` compile to the same policy, and so to the same counters: both are a
//! [`PolicySpec`](tollgate_core::policy::spec::PolicySpec).

use tollgate_core::meter::MeterSpec;
use tollgate_core::policy;
use tollgate_core::policy::spec::{Compiled, Facts, Fault, SettleSpec};

use super::values::field_name;
use super::{Policy, PolicyFault, Settle};

impl Policy {
    /// The policy that judges requests, or all that is wrong with this one. Warnings are logged.
    pub(super) fn compile(&self, facts: &Facts<'_>) -> Result<policy::Policy, Vec<PolicyFault>> {
        let name = &self.spec.name;
        let unread = self.unread.iter().map(|(field, why)| PolicyFault::unread(name, field, why));
        let mut errors: Vec<PolicyFault> = unread.collect();
        let Compiled { policy, faults } = self.spec.compile(facts);
        for Fault { field, is_warning, remark } in faults {
            let fault = PolicyFault::new(name, &field, remark);
            match is_warning {
                true => tracing::warn!(target: "tollgate_limiter", "{fault}"),
                false => errors.push(fault),
            }
        }
        policy.filter(|_| errors.is_empty()).ok_or(errors)
    }
}

impl Settle {
    pub(super) fn compile(&self) -> Result<SettleSpec, String> {
        let text = |error: &dyn ToString| error.to_string();
        Ok(match self {
            Self::Header(name) => SettleSpec::Meter(MeterSpec::Header(field_name(name)?)),
            Self::Json(place) => {
                SettleSpec::Meter(MeterSpec::Json(place.parse().map_err(|why| text(&why))?))
            }
            Self::SseJson(place) => {
                SettleSpec::Meter(MeterSpec::SseJson(place.parse().map_err(|why| text(&why))?))
            }
            Self::ResponseBytes(bytes) => SettleSpec::Bytes(*bytes),
        })
    }
}

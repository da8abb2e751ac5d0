//! Charges for tests.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::consistency::Consistency;
use tollgate_core::store::Charge;
use tollgate_core::testing::key;

/// A binding charge on the one counter of this client.
pub(crate) fn charge(client: u64, algorithm: &Algorithm, cost: u64) -> Charge<'_> {
    let key = key(client.into());
    let consistency = Consistency::default();
    Charge { key, algorithm, cost, binding: true, consistency }
}

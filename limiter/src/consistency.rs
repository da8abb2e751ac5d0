//! How a store of several nodes keeps the counters of a policy: exact or fast, and the
//! behaviour while the store is unavailable. A store of one node is always exact and
//! always available.

/// The settings of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consistency {
    /// How exact its counters are.
    pub mode: StoreMode,
    /// The treatment of its requests while the store is unavailable.
    pub on_failure: OnFailure,
}

/// How exact a policy's counters are on several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Every admitted request is counted before it goes on.
    #[default]
    Exact,
    /// Nodes lease units in small numbers and spend them without asking the store. At
    /// most 2 % more than the limit is admitted in any window.
    Leased,
    /// Each node counts for itself and sends its counts to the store regularly: for
    /// limits that may be approximate.
    WriteBack,
}

/// The treatment of a policy's requests while the store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Every node counts for itself, up to its share of the limit.
    #[default]
    Local,
    /// They are admitted and not counted.
    Allow,
    /// They are refused.
    Deny,
}

//! How a store of several nodes keeps the counters of a policy: what its owner chose
//! between exact and fast, and for the time when the store is away. A store of one node
//! is always exact and never away.

/// What the owner of a policy chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consistency {
    /// How exact its counters are.
    pub mode: StoreMode,
    /// What becomes of its requests while the store is away.
    pub on_failure: OnFailure,
}

/// How exact a policy's counters are on several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Every admitted request is counted before it goes on.
    #[default]
    Exact,
    /// Units are taken in small lots and spent without asking: at most 2 % of
    /// the limit above it in any window.
    Leased,
    /// Counted here, and sent to the others now and then: for limits where
    /// approximate is fine.
    WriteBack,
}

/// What becomes of a policy's requests while the store is away.
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

//! The consistency of a policy's counters in a store that several nodes share: exact or
//! fast, and the behaviour while the store is unavailable. A store of a single node is
//! always exact and always available.

/// The settings of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consistency {
    /// The exactness of its counters.
    pub mode: StoreMode,
    /// The treatment of its requests while the store is unavailable.
    pub on_failure: OnFailure,
}

/// How exact a policy counts in a store that several nodes share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Every admitted request is counted before it is forwarded.
    #[default]
    Exact,
    /// Nodes lease units in small numbers and consume them without a request to the store.
    /// At most 2 % more than the limit is admitted in any window.
    Leased,
    /// Each node counts separately and sends its counts to the store regularly. This is for
    /// limits that may be approximate.
    WriteBack,
}

/// What a policy does with requests while the store is not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Each node decides by the counts that it knows, and by its share of the limit.
    #[default]
    Local,
    /// They are admitted and not counted.
    Allow,
    /// They are refused.
    Deny,
}

//! What a request can make the check of its signatures do at most.

/// The most agents that are known.
pub const MAX_AGENTS: usize = 64;
/// The most bytes of each of the three fields, all lines together.
pub(super) const MAX_FIELD_BYTES: usize = 4096;
/// The most signatures of a request.
pub(super) const MAX_SIGNATURES: usize = 8;
/// The most of them that are checked. The others of a request are of proxies, with other tags.
pub(super) const MAX_VERIFIED: usize = 2;
/// The most components that a signature covers.
pub(super) const MAX_COMPONENTS: usize = 16;
/// The most bytes that are signed.
pub(super) const MAX_BASE_BYTES: usize = 16 * 1024;
/// The most keys that are tried for one signature: keys without a name.
pub(super) const MAX_NAMELESS_KEYS: usize = 4;
/// How long a signature may be valid from now on.
pub(super) const MAX_LIFETIME_SECS: i64 = 3600;
/// How much the clocks of agents may differ.
pub(super) const MAX_SKEW_SECS: i64 = 30;

//! The fields of a specification, for reports.

use std::fmt;

/// A part of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlace {
    /// The way to it: an index for each list.
    pub path: Vec<usize>,
    /// Whether the part is a list, and the list is meant and not what is around it.
    pub is_list: bool,
}

/// A field of a [`PolicySpec`](super::PolicySpec).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of the specification have the documentation")]
pub enum Field {
    Name,
    Key(KeyPlace),
    Limit,
    Algorithm,
    Buckets,
    Burst,
    MaxDelay,
    Calendar,
    Cost,
    CostHeader,
    CostDefault,
    CostMax,
    BodyBytes,
    Reserve,
    ReserveOutput,
    ReserveMaxOutput,
    ReserveBytesPerToken,
    ReserveImage,
    ReserveStored,
    ReserveMax,
    ReserveModel,
    Settle,
    Unsettled,
    ResponseBytes,
    Count,
    Statuses,
    /// The status with this index.
    Status(usize),
    StoreMode,
    OnStoreFailure,
    Soft,
    MissingKey,
    Exempt,
    Plans,
    PlansFrom(KeyPlace),
    PlanLimits,
    /// The name of the plan with this index.
    PlanName(usize),
    /// The limit of the plan with this index.
    PlanLimit(usize),
    Penalty,
    After,
    Ban,
    MaxBan,
    BanDelay,
    Elastic,
    ElasticLimit,
    When,
    LatencyBelow,
    InFlightBelow,
    Warn,
    /// The share with this index.
    WarnShare(usize),
    Overrides,
    Response,
}

impl Field {
    /// Where it is in a policy of a `gateway.yaml`, with dots between the names.
    pub const fn path(&self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Key(_) => "key",
            Self::Limit => "limit",
            Self::Algorithm => "algorithm",
            Self::Buckets => "buckets",
            Self::Burst => "burst",
            Self::MaxDelay => "max_delay",
            Self::Calendar => "calendar",
            Self::Cost => "cost",
            Self::CostHeader => "cost.header",
            Self::CostDefault => "cost.default",
            Self::CostMax => "cost.max",
            Self::BodyBytes => "cost.body_bytes",
            Self::Reserve => "cost.reserve",
            Self::ReserveOutput => "cost.reserve.output",
            Self::ReserveMaxOutput => "cost.reserve.max_output",
            Self::ReserveBytesPerToken => "cost.reserve.bytes_per_token",
            Self::ReserveImage => "cost.reserve.image",
            Self::ReserveStored => "cost.reserve.stored_input",
            Self::ReserveMax => "cost.reserve.max",
            Self::ReserveModel => "cost.reserve.model",
            Self::Settle => "cost.settle",
            Self::Unsettled => "cost.settle.unsettled",
            Self::ResponseBytes => "cost.settle.response_bytes",
            Self::Count => "count",
            Self::Statuses | Self::Status(_) => "count.status",
            Self::StoreMode => "store_mode",
            Self::OnStoreFailure => "on_store_failure",
            Self::Soft => "soft",
            Self::MissingKey => "missing_key",
            Self::Exempt => "exempt",
            Self::Plans => "plans",
            Self::PlansFrom(_) => "plans.from",
            Self::PlanLimits | Self::PlanName(_) | Self::PlanLimit(_) => "plans.limits",
            Self::Penalty => "penalty",
            Self::After => "penalty.after",
            Self::Ban => "penalty.ban",
            Self::MaxBan => "penalty.max_ban",
            Self::BanDelay => "penalty.delay",
            Self::Elastic => "elastic",
            Self::ElasticLimit => "elastic.limit",
            Self::When => "elastic.when",
            Self::LatencyBelow => "elastic.when.upstream_latency_below",
            Self::InFlightBelow => "elastic.when.upstream_in_flight_below",
            Self::Warn | Self::WarnShare(_) => "warn",
            Self::Overrides => "overrides",
            Self::Response => "response",
        }
    }

    /// Its own name.
    pub(super) fn name(&self) -> &'static str {
        let path = self.path();
        path.rsplit_once('.').map_or(path, |(_, name)| name)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

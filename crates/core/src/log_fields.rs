//! The fields of a line of the gateway's access log, and their names: one table for JSON in all
//! vocabularies and for templates. The gateway writes them, and its replay reads them.
//! docs/logs.md shows the table, and a test of the gateway compares both.

/// A field of a line. Its number is its index in [`FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// When the head of the request had arrived.
    Time,
    /// The value of `X-Request-Id`.
    RequestId,
    /// The id of its trace.
    TraceId,
    /// The network or the address of the client.
    Client,
    /// The method.
    Method,
    /// The path, without the query.
    Path,
    /// The host, and the port if the request names it.
    Host,
    /// The version of HTTP.
    Protocol,
    /// The status of the response.
    Status,
    /// The length of the body of the response.
    Bytes,
    /// The time from the head of the request to the end of the response.
    Duration,
    /// The time from the head of the request to the head of the upstream's response.
    UpstreamTime,
    /// The name of the last upstream that was tried.
    Upstream,
    /// The last endpoint that was tried.
    Endpoint,
    /// The number of attempts at endpoints.
    Attempts,
    /// How long the request has waited for a connection to the upstream.
    Queued,
    /// The name of the route.
    Route,
    /// The decision, or the failure that followed it.
    Outcome,
    /// The policy that gives the numbers in the response.
    Policy,
    /// The plan that gave the limit.
    Plan,
    /// What remains of the limit.
    Remaining,
    /// What the request costs.
    Cost,
    /// Where the counter was.
    Source,
    /// How long the store took.
    StoreTime,
    /// How long the client was told to wait.
    Wait,
    /// The policy in shadow mode that would have refused.
    ShadowRefusedBy,
    /// The kind of the credential with which the request passed.
    Auth,
    /// The id of the API key.
    KeyId,
    /// The team of the API key.
    Team,
    /// The class of the client.
    Class,
    /// The agent that has signed the request.
    Agent,
    /// The access list that denied the request.
    DeniedBy,
    /// The access list in shadow mode that would have denied it.
    ShadowDeniedBy,
    /// The model that the request names.
    Model,
    /// The tokens of the input, with those of caches.
    TokensIn,
    /// The tokens of the input that were read from a cache.
    TokensCached,
    /// The tokens of the output.
    TokensOut,
    /// What the request has cost, in the currency of the prices.
    Spent,
    /// Why the response has not settled the cost.
    Unsettled,
    /// The route whose limits handed it to another route.
    Overflow,
    /// How many of 100 such requests are written.
    Sample,
    /// When the request was decided.
    TimeUs,
    /// When its cost was settled.
    SettledUs,
    /// What each policy counted.
    Keys,
}

/// The vocabulary of the names in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldNames {
    /// Short names of our own.
    Own,
    /// OpenTelemetry's semantic conventions.
    Otel,
    /// The Elastic Common Schema.
    Ecs,
}

/// A field and its names.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The field.
    pub field: Field,
    /// Our own name.
    pub own: &'static str,
    /// The attribute of OpenTelemetry's semantic conventions, version 1.37, or one of our
    /// own namespace.
    pub otel: &'static str,
    /// The field of the Elastic Common Schema, version 8.11, or one of our own namespace.
    pub ecs: &'static str,
}

impl Named {
    /// The name in this vocabulary.
    pub const fn name(&self, names: FieldNames) -> &'static str {
        match names {
            FieldNames::Own => self.own,
            FieldNames::Otel => self.otel,
            FieldNames::Ecs => self.ecs,
        }
    }
}

/// What a JSON line of the Elastic Common Schema says of itself.
pub const ECS_VERSION: (&str, &str) = ("ecs.version", "8.11.0");
/// The field of a line that says how many lines are missing, in our own namespace unless
/// names are our own.
pub const DROPPED_LINES: &str = "dropped_lines";

const fn named(field: Field, own: &'static str, otel: &'static str, ecs: &'static str) -> Named {
    Named { field, own, otel, ecs }
}

/// All fields, in the order in which JSON has them.
#[rustfmt::skip]
pub const FIELDS: [Named; 44] = [
    named(Field::Time, "time", "timestamp", "@timestamp"),
    named(Field::RequestId, "request_id", "tollgate.request_id", "http.request.id"),
    named(Field::TraceId, "trace_id", "trace_id", "trace.id"),
    named(Field::Client, "client", "client.address", "client.address"),
    named(Field::Method, "method", "http.request.method", "http.request.method"),
    named(Field::Path, "path", "url.path", "url.path"),
    named(Field::Host, "host", "server.address", "url.domain"),
    named(Field::Protocol, "protocol", "network.protocol.version", "http.version"),
    named(Field::Status, "status", "http.response.status_code", "http.response.status_code"),
    named(Field::Bytes, "bytes", "http.response.body.size", "http.response.body.bytes"),
    named(Field::Duration, "duration_us", "tollgate.duration_us", "event.duration"),
    named(Field::UpstreamTime, "upstream_us", "tollgate.upstream_us", "tollgate.upstream_us"),
    named(Field::Upstream, "upstream", "tollgate.upstream", "tollgate.upstream"),
    named(Field::Endpoint, "endpoint", "tollgate.endpoint", "tollgate.endpoint"),
    named(Field::Attempts, "attempts", "tollgate.attempts", "tollgate.attempts"),
    named(Field::Queued, "queue_us", "tollgate.queue_us", "tollgate.queue_us"),
    named(Field::Route, "route", "tollgate.route", "tollgate.route"),
    named(Field::Outcome, "outcome", "tollgate.outcome", "tollgate.outcome"),
    named(Field::Policy, "policy", "tollgate.policy", "tollgate.policy"),
    named(Field::Plan, "plan", "tollgate.plan", "tollgate.plan"),
    named(Field::Remaining, "remaining", "tollgate.remaining", "tollgate.remaining"),
    named(Field::Cost, "cost", "tollgate.cost", "tollgate.cost"),
    named(Field::Source, "source", "tollgate.source", "tollgate.source"),
    named(Field::StoreTime, "store_us", "tollgate.store_us", "tollgate.store_us"),
    named(Field::Wait, "wait_ms", "tollgate.wait_ms", "tollgate.wait_ms"),
    named(Field::ShadowRefusedBy, "shadow_refused_by", "tollgate.shadow_refused_by", "tollgate.shadow_refused_by"),
    named(Field::Auth, "auth", "tollgate.auth", "tollgate.auth"),
    named(Field::KeyId, "key_id", "tollgate.key_id", "tollgate.key_id"),
    named(Field::Team, "team", "tollgate.team", "tollgate.team"),
    named(Field::Class, "class", "tollgate.class", "tollgate.class"),
    named(Field::Agent, "agent", "tollgate.agent", "tollgate.agent"),
    named(Field::DeniedBy, "denied_by", "tollgate.denied_by", "tollgate.denied_by"),
    named(Field::ShadowDeniedBy, "shadow_denied_by", "tollgate.shadow_denied_by", "tollgate.shadow_denied_by"),
    named(Field::Model, "model", "gen_ai.request.model", "gen_ai.request.model"),
    named(Field::TokensIn, "tokens_in", "gen_ai.usage.input_tokens", "gen_ai.usage.input_tokens"),
    named(Field::TokensCached, "tokens_cached", "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read.input_tokens"),
    named(Field::TokensOut, "tokens_out", "gen_ai.usage.output_tokens", "gen_ai.usage.output_tokens"),
    named(Field::Spent, "spent", "tollgate.spent", "tollgate.spent"),
    named(Field::Unsettled, "unsettled", "tollgate.unsettled", "tollgate.unsettled"),
    named(Field::Overflow, "overflow", "tollgate.overflow", "tollgate.overflow"),
    named(Field::Sample, "sample", "tollgate.sample", "tollgate.sample"),
    named(Field::TimeUs, "time_us", "tollgate.time_us", "tollgate.time_us"),
    named(Field::SettledUs, "settled_us", "tollgate.settled_us", "tollgate.settled_us"),
    named(Field::Keys, "keys", "tollgate.keys", "tollgate.keys"),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const ALL: [FieldNames; 3] = [FieldNames::Own, FieldNames::Otel, FieldNames::Ecs];

    #[test]
    fn a_name_means_one_field() {
        for names in ALL {
            let distinct: HashSet<&str> = FIELDS.iter().map(|it| it.name(names)).collect();
            assert_eq!(distinct.len(), FIELDS.len(), "{names:?}");
        }
    }

    #[test]
    fn a_field_has_the_number_of_its_place() {
        for (index, named) in FIELDS.iter().enumerate() {
            assert_eq!(named.field as usize, index, "{named:?}");
        }
    }
}

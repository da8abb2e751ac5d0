//! From what was written to what is true.
//!
//! Every section is compiled whatever became of the others, so that all
//! mistakes are found. A part that is broken yields nothing or its default;
//! that never runs, since a configuration with any error is refused.

mod algorithms;
mod changes;
mod checks;
mod client;
mod combinations;
mod costs;
mod counters;
mod elastic;
mod geo;
mod jwks;
mod jwt;
mod key;
mod listener_tls;
mod listeners;
mod names;
mod overrides;
mod penalties;
mod plans;
mod policies;
mod process;
mod responses;
mod retries;
mod routes;
mod store;
mod terms;
mod unlimited;
mod unused;
mod upstream_tls;
mod upstreams;

use std::sync::Arc;

use super::expand::Surroundings;
use super::field::Field;
use super::model::Config;
use super::node::Span;
use super::problem::Problems;
use super::raw::RawConfig;

/// The configuration, unless there are errors; those and warnings go to `problems`.
pub(super) fn compile(
    raw: &RawConfig,
    around: &Surroundings<'_>,
    problems: &Problems,
) -> Option<Config> {
    let compiler = Compiler { problems, around };
    let geo_files = compiler.geo(raw.client.value());
    let mut client = compiler.client(raw.client.value());
    client.geo = geo_files.iter().map(|file| Arc::clone(&file.database)).collect();
    let store = compiler.store(raw.store.value());
    let policies = compiler.policies(raw, &store, &client);
    let upstreams = compiler.upstreams(raw);
    let routes = compiler.routes(raw, &policies, &upstreams);
    let config = Config {
        listeners: compiler.listeners(&raw.listeners, &client.trusted_proxies),
        client,
        geo_files,
        key_source: compiler.key_source(raw.client.value()),
        store,
        headers: compiler.headers(raw.headers.value()),
        problem_json: raw.problem_json.value().copied().unwrap_or(true),
        telemetry: compiler.telemetry(raw.telemetry.value()),
        runtime: compiler.runtime(raw.runtime.value()),
        policies: policies
            .into_iter()
            .filter(|policy| !policy.off)
            .filter_map(|policy| policy.compiled)
            .collect(),
        routes: routes.into_iter().flatten().collect(),
        upstreams: upstreams.into_iter().map(|upstream| upstream.settings).collect(),
    };
    compiler.check_counters(raw, &config);
    if problems.any_errors() {
        return None;
    }
    compiler.warn_unused(raw, &config);
    Some(config)
}

/// What every section's compiler works with.
struct Compiler<'a> {
    problems: &'a Problems,
    around: &'a Surroundings<'a>,
}

impl Compiler<'_> {
    /// The field's value; an error at `owner` if the field is not there.
    fn required<'f, T>(
        &self,
        field: &'f Field<T>,
        owner: Span,
        message: &str,
        advice: &str,
    ) -> Option<&'f T> {
        if field.is_absent() {
            self.problems.error(owner, message, advice);
        }
        field.value()
    }
}

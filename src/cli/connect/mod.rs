//! `tollgate check --connect`: connects to what the configuration names, and says what a gateway
//! would find there.
//!
//! Everything is asked at the same time, and each server for a bounded time. Nothing is changed.

mod outcome;
mod store;

use std::io;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use tokio::join;
use tollgate_core::time::Clock;

use crate::app::{KeyCount, count_keys, local_runtime};
use crate::config::{Config, GeoFile, KeySource, Signed};
use crate::proxy::{self, EndpointReport, EndpointSettings, UpstreamSettings};
use outcome::{Outcome, ms};

/// How long one server may take, or one step at an endpoint.
const LIMIT: Duration = Duration::from_secs(5);
/// How many endpoints are asked at the same time.
const ENDPOINTS: usize = 64;

/// Asks everything that the configuration names.
///
/// # Errors
/// If the system refuses a runtime.
pub fn run(config: &Config) -> io::Result<Vec<Outcome>> {
    let runtime = local_runtime()?;
    let outcomes = runtime.block_on(async {
        let (store, keys, upstreams) =
            join!(store::probe(config, LIMIT), keys(config), upstreams(config));
        let files = config.files.databases.iter().map(geo_file).collect();
        [store, keys, files, upstreams].concat()
    });
    // A lookup of a name that takes long is not waited for.
    runtime.shutdown_background();
    Ok(outcomes)
}

async fn keys(config: &Config) -> Vec<Outcome> {
    let sources = config.key_source.iter().chain(&config.agent_sources);
    join_all(sources.map(async |source| key_set(source, count_keys(source).await))).await
}

fn key_set(source: &KeySource, found: Result<KeyCount, String>) -> Outcome {
    let (field, advice) = match source.signed {
        Signed::Tokens => (
            "client.user.jwt.jwks",
            "until it can be fetched, no token is valid: see whether the issuer runs",
        ),
        Signed::Requests => (
            "client.agents",
            "until it can be fetched, no request has this agent: see whether it publishes its keys",
        ),
    };
    let mut outcome = Outcome::new(field, &source.shown);
    let KeyCount { usable, passed_over, left_out } = match found {
        Ok(count) => count,
        Err(why) => {
            outcome.error(format!("the key set cannot be used: {why}"), advice);
            return outcome;
        }
    };
    let mut facts = vec![format!("{usable} {}", if usable == 1 { "key" } else { "keys" })];
    if passed_over > 0 {
        facts.push(format!("{passed_over} not used"));
    }
    outcome.facts = Some(facts);
    for (name, why) in left_out {
        let what = format!("the key {name} cannot be used: {why}");
        let effect = match source.signed {
            Signed::Tokens => "no token that it has signed is valid",
            Signed::Requests => "no request that it has signed has an agent",
        };
        outcome.warning(what, effect);
    }
    outcome
}

/// The file was read when the configuration was loaded.
fn geo_file(file: &GeoFile) -> Outcome {
    const DAY_S: u64 = 86_400;
    let mut outcome = Outcome::new("client.geo.database", file.path().display().to_string());
    let age_s = Clock::System.wall().as_secs().saturating_sub(file.database.built_s());
    let built = match age_s / DAY_S {
        0 => "built today".to_owned(),
        1 => "built 1 day ago".to_owned(),
        days => format!("built {days} days ago"),
    };
    outcome.facts = Some(vec![file.database.kind().to_owned(), built]);
    outcome
}

async fn upstreams(config: &Config) -> Vec<Outcome> {
    let endpoints = config.upstreams.iter().flat_map(|upstream| {
        upstream.endpoints.iter().map(move |endpoint| async move {
            let found = proxy::probe(upstream, endpoint, LIMIT).await;
            found.into_iter().map(|report| of_endpoint(upstream, endpoint, report)).collect()
        })
    });
    let asked: Vec<Vec<Outcome>> = stream::iter(endpoints).buffered(ENDPOINTS).collect().await;
    asked.concat()
}

fn of_endpoint(
    upstream: &UpstreamSettings,
    endpoint: &EndpointSettings,
    report: EndpointReport,
) -> Outcome {
    let EndpointReport { address, connected_in, tls, check, failure } = report;
    let target = endpoint.target.to_string();
    // The address is shown if it is not the one that is written.
    let name = match address {
        Some(address) if !target.contains(&address) => format!("{target} at {address}"),
        _ => target,
    };
    let mut outcome = Outcome::new(format!("upstreams.{}.endpoints", upstream.name), name);
    outcome.facts = connected_in.map(|time| {
        let mut facts = vec![format!("connected in {}", ms(time))];
        facts.extend(tls);
        facts.extend(check.map(|status| format!("health check {status}")));
        facts
    });
    if let Some(failure) = failure {
        outcome.error(failure.what, failure.remedy);
    }
    outcome
}

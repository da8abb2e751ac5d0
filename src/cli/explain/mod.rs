//! `tollgate explain`: what a request would get, and why; or what a past refusal was.

mod args;
mod offline;
mod problem;
mod text;

use std::path::Path;

use serde_json::{Value, json};
use tollgate_core::time::Clock;
use tollgate_top::texts;

pub use self::args::{EXAMPLES, ExplainArgs};
pub use self::problem::Problem;
use crate::app::local_runtime;
use crate::config::{Compiled, LoadError};
use crate::engine::Explanation;

/// What is printed.
pub struct Explained {
    /// The text for standard output.
    pub text: String,
    /// Whether no gateway refuses the request.
    pub is_admitted: bool,
}

/// Explains the request of the arguments. `load` reads a configuration.
///
/// # Errors
/// If the arguments or the configuration are wrong, or a gateway does not answer.
pub fn run(
    args: &ExplainArgs,
    load: impl Fn(&Path) -> Result<Compiled, LoadError>,
) -> Result<Explained, Problem> {
    let runtime = local_runtime().map_err(Problem::Start)?;
    match &args.id {
        Some(id) => runtime.block_on(past(args, id)),
        None if args.gateways.is_given() => runtime.block_on(online(args)),
        None if args.gateways.has_credentials() => Err(Problem::NoGateway),
        None => {
            let asked = args.description()?.into_asked()?;
            let path = args.config.as_deref().unwrap_or(Path::new("gateway.yaml"));
            let config = load(path)?.config;
            let explained = offline::explained(config, &args.used, &Clock::System, &asked);
            Ok(Explained::of(&runtime.block_on(explained)?, args.json))
        }
    }
}

impl Explained {
    fn of(explanation: &Explanation, is_json: bool) -> Self {
        let text = match is_json {
            true => format!("{:#}\n", json!(explanation)),
            false => text::text(explanation),
        };
        Self { text, is_admitted: explanation.is_admitted() }
    }
}

/// Asks all gateways what the request would get.
async fn online(args: &ExplainArgs) -> Result<Explained, Problem> {
    let body = json!(args.description()?);
    let mut found: Vec<(&str, Explanation)> = Vec::new();
    let gateways = args.gateways.find()?;
    for gateway in &gateways {
        let answer = gateway.client.post("/v1/explain", &body).await;
        let read = serde_json::from_value(answer.map_err(|error| gateway.problem(error))?);
        found.push((&gateway.url, read.map_err(|_| Problem::Form(gateway.url.clone()))?));
    }
    let is_admitted = found.iter().all(|(_, it)| it.is_admitted());
    let text = match (&found[..], args.json) {
        ([(_, only)], is_json) => return Ok(Explained::of(only, is_json)),
        (all, true) => {
            let nodes = all.iter().map(|(url, it)| json!({ "admin": url, "explanation": it }));
            format!("{:#}\n", json!({ "nodes": nodes.collect::<Vec<_>>() }))
        }
        (all, false) => {
            let node = |(url, it): &(&str, Explanation)| format!("{url}\n{}", text::text(it));
            all.iter().map(node).collect::<Vec<_>>().join("\n")
        }
    };
    Ok(Explained { text, is_admitted })
}

/// Asks all gateways for the refusals of a request. A gateway that does not know the id is no
/// failure if another one does.
async fn past(args: &ExplainArgs, id: &str) -> Result<Explained, Problem> {
    let path = format!("/v1/refusals/{}", percent_encoding::utf8_percent_encode(id, ID));
    let mut found = Vec::new();
    let mut failure = None;
    for gateway in args.gateways.find()? {
        let url = &gateway.url;
        match gateway.client.get(&path).await {
            Ok(mut answer) => {
                let Value::Array(items) = answer["items"].take() else {
                    return Err(Problem::Form(url.clone()));
                };
                found.extend(items.into_iter().map(|mut it| {
                    it["admin"] = json!(url);
                    it
                }));
            }
            Err(error) => {
                // A gateway that is away says less than one that does not know the id.
                if failure.is_none() || !error.is_not_found() {
                    failure = Some(gateway.problem(error).into());
                }
            }
        }
    }
    match failure {
        Some(failure) if found.is_empty() => Err(failure),
        _ => {
            let text = match args.json {
                true => format!("{:#}\n", json!({ "items": found })),
                false => found.iter().map(texts::refusal).collect::<Vec<_>>().join("\n"),
            };
            Ok(Explained { text, is_admitted: false })
        }
    }
}

/// The characters that a segment of a path cannot have.
const ID: &percent_encoding::AsciiSet = percent_encoding::NON_ALPHANUMERIC;

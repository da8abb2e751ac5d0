//! `tollgate health`: whether a running gateway serves, in one word. For health checks of containers
//! and for scripts.

use std::time::Duration;

use clap::Args;
use http::StatusCode;

use super::admin_client::AdminError;
use super::which::{GatewayArgs, Problem};
use crate::app::local_runtime;

pub const EXAMPLES: &str = "\
Examples:
  tollgate health                    ready, draining or unreachable
  tollgate health --live             alive or unreachable
Exit code 0: ready or alive; 1: not. The answer takes 2 s at most, and needs no token.";

/// The longest time of the call.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Args)]
pub struct HealthArgs {
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Ask whether the process runs, also while it drains
    #[arg(long)]
    live: bool,
}

/// The state of a gateway.
pub struct Health {
    /// The state in a word.
    pub word: String,
    pub is_good: bool,
    /// Why the gateway could not be asked.
    pub why: Option<Problem>,
}

/// Asks the gateway, or its listener for health checks if the file names one.
///
/// # Errors
/// If an argument or the configuration cannot be used.
pub fn run(args: &HealthArgs) -> Result<Health, Problem> {
    let mut gateway = args.gateway.find()?.waiting(PATIENCE);
    if let Some(probe) = gateway.probe.take() {
        gateway = gateway.at(&probe)?;
    }
    let path = if args.live { "/healthz" } else { "/readyz" };
    let asked = async { gateway.client.look(path).await };
    let runtime = local_runtime().map_err(|error| gateway.problem(AdminError::Connect(error)))?;
    Ok(match runtime.block_on(asked) {
        Ok((status, document)) => {
            let word = document["status"].as_str().filter(|it| it.chars().all(char::is_alphabetic));
            let is_good = status == StatusCode::OK && word.is_some();
            Health { word: word.unwrap_or("unreachable").to_owned(), is_good, why: None }
        }
        Err(error) => Health {
            word: "unreachable".to_owned(),
            is_good: false,
            why: Some(gateway.problem(error)),
        },
    })
}

//! `tollgate top`: finds the gateways, and gives them to the view of `tollgate-top`.

use std::io;

use clap::Args;
use tollgate_top::{AdminApi, Answer, Failure, Gateway, Shown, TopOptions};

use super::admin_client::{AdminClient, AdminError};
use super::which::{self, GatewaysArgs};
use crate::app::local_runtime;

#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    gateways: GatewaysArgs,
    #[command(flatten)]
    options: TopOptions,
}

/// Why figures cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// An argument cannot be used.
    #[error(transparent)]
    Which(#[from] which::Problem),
    /// Several gateways are asked for the figures of all.
    #[error("with --scope cluster name one --admin: its answer has the figures of all nodes")]
    SeveralScopes,
    /// The system refuses a runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// The terminal cannot be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(io::Error),
}

impl Problem {
    /// Whether the fault is in the arguments.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Which(problem) => problem.is_usage(),
            Self::SeveralScopes => true,
            Self::Start(_) | Self::Terminal(_) => false,
        }
    }
}

/// Shows the figures until the user ends it, or once if there is no terminal.
///
/// # Errors
/// If the arguments are wrong, or the terminal cannot be used.
pub fn run(args: &TopArgs) -> Result<Shown, Problem> {
    if args.options.is_of_cluster() && args.gateways.has_several() {
        return Err(Problem::SeveralScopes);
    }
    let found = args.gateways.find()?.into_iter();
    let gateways = found.map(|it| Gateway { url: it.url, api: Box::new(it.client) }).collect();
    let runtime = local_runtime().map_err(Problem::Start)?;
    runtime.block_on(tollgate_top::run(&args.options, gateways)).map_err(Problem::Terminal)
}

impl AdminApi for AdminClient {
    fn get<'a>(&'a self, path: &'a str) -> Answer<'a> {
        Box::pin(async move { Self::get(self, path).await.map_err(failure) })
    }

    fn delete<'a>(&'a self, path: &'a str) -> Answer<'a> {
        Box::pin(async move { Self::delete(self, path).await.map_err(failure) })
    }
}

fn failure(error: AdminError) -> Failure {
    Failure { text: error.to_string(), is_of_one_call: error.is_of_one_call() }
}

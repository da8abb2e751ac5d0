//! The arguments of `tollgate policy` and `tollgate reset`.

use clap::{Args, Subcommand};

use crate::cli::which::GatewayArgs;

pub const EXAMPLES: &str = "\
Examples:
  tollgate policy list
  tollgate policy show per-client
  tollgate policy set per-client 200/1m --for 30m --reason launch
  tollgate policy try per-client 50/1h --for 1d
  tollgate policy apply per-client
  tollgate policy undo per-client
A change prints what was before, what is after, until when, and the command that undoes it.
Exit code 0: done; 1: the gateway does not answer or refuses; 2: wrong usage.";

pub const RESET_EXAMPLES: &str = "\
Examples:
  tollgate reset per-client 192.0.2.7
  tollgate reset per-client ~k7f2m9qd0v3x       an id that top or the access log shows
KEY is written as for tollgate override.
Exit code 0: done; 1: the gateway does not answer or refuses; 2: wrong usage.";

#[derive(Clone, Debug, Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub command: PolicyCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub enum PolicyCommand {
    /// List all policies with their limits and what they decide
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
        /// Print the answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one policy, with its changes
    Show {
        /// The policy
        policy: String,
        #[command(flatten)]
        gateway: GatewayArgs,
        /// Print the answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a policy another limit while gateways run
    Set {
        /// The policy
        policy: String,
        /// The limit, in the same window: 200/1m
        limit: String,
        #[command(flatten)]
        gateway: GatewayArgs,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Judge requests by another limit beside the policy, without refusing any
    Try {
        /// The policy
        policy: String,
        /// The limit: 50/1h
        limit: String,
        #[command(flatten)]
        gateway: GatewayArgs,
        /// When the trial ends, such as 30m or 1d
        #[arg(long = "for", value_name = "TIME", default_value = "1d")]
        lasts: String,
        /// Why, for others
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Put the limit that is tried in the place of that of the policy
    Apply {
        /// The policy
        policy: String,
        #[command(flatten)]
        gateway: GatewayArgs,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Go back to the limit of the file; without a change, end the trial of another limit
    Undo {
        /// The policy
        policy: String,
        /// End the trial of another limit, and keep the change
        #[arg(long)]
        trial: bool,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// What a change says of itself.
#[derive(Clone, Debug, Args)]
pub struct ChangeArgs {
    /// When it ends, such as 30m [default: when it is undone]
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<String>,
    /// Why, for others
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Write it into the file, too, so that it stays
    #[arg(long, conflicts_with = "lasts")]
    pub persist: bool,
}

#[derive(Clone, Debug, Args)]
pub struct ResetArgs {
    /// The policy
    pub policy: String,
    /// The key as it is in a request, or ~ and its id
    pub key: String,
    /// The id of the API key in the requests of the client, if the policy counts by something else
    #[arg(long, value_name = "ID")]
    pub api_key: Option<String>,
    #[command(flatten)]
    pub gateway: GatewayArgs,
}

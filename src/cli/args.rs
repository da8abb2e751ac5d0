//! The arguments of the command line.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::explain::{EXAMPLES as EXPLAIN_EXAMPLES, ExplainArgs};
use super::health::{EXAMPLES as HEALTH_EXAMPLES, HealthArgs};
use super::import::{EXAMPLES as IMPORT_EXAMPLES, ImportArgs};
use super::init::{EXAMPLES as INIT_EXAMPLES, InitArgs};
use super::key::{EXAMPLES as KEY_EXAMPLES, KeyArgs};
use super::keys::{TEAM_EXAMPLES, TeamArgs};
use super::paint::Colour;
use super::policy::{EXAMPLES as POLICY_EXAMPLES, PolicyArgs, RESET_EXAMPLES, ResetArgs};
use super::prices::{EXAMPLES as PRICES_EXAMPLES, PricesArgs};
use super::ratelimit::{EXAMPLES as RATELIMIT_EXAMPLES, RatelimitArgs};
use super::reload::{EXAMPLES as RELOAD_EXAMPLES, ReloadArgs};
use super::status::{EXAMPLES as STATUS_EXAMPLES, StatusArgs};
use super::top::TopArgs;
use super::which::DEFAULT_CONFIG;
use crate::config::{Config, Endpoint, KeyLimit, ListenAddress, LoneKey, Rate};
use crate::proxy::TlsError;

/// A rate-limiting API gateway whose limits are true.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
    /// When text has colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway until SIGTERM or SIGINT
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run as the rate limit service of Envoy, with the environment of envoyproxy/ratelimit
    #[command(after_help = RATELIMIT_EXAMPLES)]
    Ratelimit(RatelimitArgs),
    /// Write a configuration to begin with
    #[command(after_help = INIT_EXAMPLES)]
    Init(InitArgs),
    /// Translate a configuration of another gateway, and say what is lost
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Make a file with the prices of language models
    #[command(after_help = PRICES_EXAMPLES)]
    Prices(PricesArgs),
    /// Check a configuration: exit code 0, or 2 with a report of all mistakes
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Show, set or remove the limit of one key, instead of the limit of its policy
    #[command(after_help = OVERRIDE_EXAMPLES)]
    Override(OverrideArgs),
    /// Make, show, change and revoke API keys
    #[command(after_help = KEY_EXAMPLES)]
    Key(KeyArgs),
    /// Say what the API keys of a team have in common
    #[command(after_help = TEAM_EXAMPLES)]
    Team(TeamArgs),
    /// Say what a request would get, and why: by a configuration, or by a running gateway
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Show what running gateways do: policies, heavy clients, refusals, upstreams, nodes
    #[command(after_help = tollgate_top::EXAMPLES)]
    Top(TopArgs),
    /// Say in one word whether a running gateway serves: exit code 0, or 1 if not
    #[command(after_help = HEALTH_EXAMPLES)]
    Health(HealthArgs),
    /// Say whether a running gateway is well, and what it does
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// Have a running gateway read its configuration again, and print what has changed
    #[command(after_help = RELOAD_EXAMPLES)]
    Reload(ReloadArgs),
    /// List, show and change policies of running gateways
    #[command(after_help = POLICY_EXAMPLES)]
    Policy(PolicyArgs),
    /// Forget the counters of a client: it begins again
    #[command(after_help = RESET_EXAMPLES)]
    Reset(ResetArgs),
    /// Read access logs, and say what the limits of a configuration would have done
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Print the JSON Schema of the configuration, for editors
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    /// Print the completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual, a page for each command, for packages
    #[command(hide = true)]
    Man {
        /// The directory, which exists
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  tollgate run                      with ./gateway.yaml
  tollgate run /etc/tollgate/gateway.yaml
  tollgate run --to http://127.0.0.1:9000 --limit 100/minute
  tollgate run --to builtin:echo --limit 5/10s --key header:x-api-key --listen 127.0.0.1:8081";
const CHECK_EXAMPLES: &str = "\
Examples:
  tollgate check
  tollgate check new.yaml
  tollgate check --routes           and a table of the routes
  tollgate check --connect          and whether the store, upstreams and others can be used
  tollgate check --json             for programs
  tollgate check -c new.yaml && mv new.yaml gateway.yaml
  sed s/60/90/ gateway.yaml | tollgate check -c -";
const OVERRIDE_EXAMPLES: &str = "\
KEY is the value that the policy counts by, as it is written in a request. If the
key has several parts, write each with its name, and %26 for & in a value.

LIMIT is a rate, a bare count in the policy's own window, or unlimited. If the policy
counts money, it is an amount, like '750 usd'.

Examples, for policies with overrides: true:
  tollgate override set per-client 192.0.2.7 500/minute
  tollgate override get per-client 192.0.2.7
  tollgate override unset per-client 192.0.2.7
  tollgate override -c /etc/tollgate/gateway.yaml set tokens ann unlimited
  tollgate override set per-user-and-path 'user=ann&path=/v1/orders' 20
It applies on all gateways within two seconds, until it is removed with unset.";
const REPLAY_EXAMPLES: &str = "\
Examples:
  tollgate replay access.log
  tollgate replay -c new.yaml access.log.2.gz access.log.1 access.log
  tollgate replay -c new.yaml --against gateway.yaml --html report.html access.log
  tollgate replay --suggest access.log
  zcat *.gz | tollgate replay -c new.yaml -
  tollgate replay --map time=ts,client=remote.ip,path=url requests.json";
const SCHEMA_EXAMPLES: &str = "\
Example:
  tollgate schema > gateway.schema.json
and as the first line of gateway.yaml:
  # yaml-language-server: $schema=gateway.schema.json";
const COMPLETIONS_EXAMPLES: &str = "\
Example:
  tollgate completions bash > /etc/bash_completion.d/tollgate";

/// The configuration of a command that may also have it as its only word.
#[derive(Debug, ClapArgs)]
pub struct ConfigArgs {
    /// The configuration; - is standard input [default: gateway.yaml]
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// The same
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ConfigArgs {
    /// The file.
    pub fn path(&self) -> &Path {
        let named = self.config.as_ref().or(self.file.as_ref());
        named.map_or(Path::new(DEFAULT_CONFIG), PathBuf::as_path)
    }
}

#[derive(Debug, ClapArgs)]
pub struct CheckArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print what was found as JSON
    #[arg(long, conflicts_with_all = ["routes", "connect"])]
    pub json: bool,
    /// Print the routes as a table, with their policies
    #[arg(long)]
    pub routes: bool,
    /// Connect to the store, the key set and the upstreams, and report what a gateway would find
    /// there: exit code 1 if one cannot be reached or lacks a right
    #[arg(long)]
    pub connect: bool,
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Without a file: forward everything to this backend
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "file"], requires = "limit")]
    to: Option<Endpoint>,
    /// Without a file: the limit, such as 100/minute or 5/10s
    #[arg(long, value_name = "RATE", requires = "to")]
    limit: Option<Rate>,
    /// Without a file: the key to limit by, such as ip, api_key, cookie:session or header:x-tenant
    #[arg(long, value_name = "KEY", default_value = "ip", requires = "to")]
    key: LoneKey,
    /// Without a file: where to listen
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", requires = "to")]
    listen: ListenAddress,
    /// Without a section admin: `none` leaves out the page that a gateway has at a terminal
    #[arg(long, value_name = "none")]
    admin: Option<NoPage>,
}

/// The word for no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NoPage {
    None,
}

#[derive(Debug, ClapArgs)]
pub struct ReplayArgs {
    /// The configuration
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// The logs, also compressed with gzip or zstd; `-` is standard input
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,
    /// The format, if it is not to be recognised: common, combined, vhost_combined, apisix,
    /// tollgate, tollgate-otel, tollgate-ecs, tollgate-text, caddy, traefik, envoy, istio,
    /// envoy-json, haproxy, alb or cloudfront
    #[arg(long, value_name = "FORMAT", conflicts_with = "map")]
    pub format: Option<String>,
    /// The names in another JSON log, such as time=ts,client=remote.ip,path=url
    #[arg(long, value_name = "FIELD=NAME,...")]
    pub map: Option<String>,
    /// The host of requests for which the log has none
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Compare with the limits of this configuration
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Suggest limits by what each key has used, and try them
    #[arg(long)]
    pub suggest: bool,
    /// Write the report to this file as a page, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct OverrideArgs {
    /// The configuration
    #[arg(short, long, global = true, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    #[command(subcommand)]
    pub command: OverrideCommand,
}

#[derive(Debug, Subcommand)]
pub enum OverrideCommand {
    /// Print the limit that applies to a key
    Get {
        /// The policy
        policy: String,
        /// The key
        key: String,
    },
    /// Give a key a limit of its own
    Set {
        /// The policy
        policy: String,
        /// The key
        key: String,
        /// The limit: 500/minute, 500, or unlimited
        limit: KeyLimit,
    },
    /// Remove it: the limit of the policy applies again
    Unset {
        /// The policy
        policy: String,
        /// The key
        key: String,
    },
}

impl OverrideCommand {
    /// The policy and the key.
    pub fn subject(&self) -> (&str, &str) {
        match self {
            Self::Get { policy, key }
            | Self::Set { policy, key, .. }
            | Self::Unset { policy, key } => (policy, key),
        }
    }
}

impl RunArgs {
    /// Whether a user at a terminal may have a page.
    pub const fn has_page(&self) -> bool {
        self.admin.is_none()
    }

    /// The configuration that the arguments describe; None if they name no backend.
    ///
    /// # Errors
    /// If the backend uses `https`, and the system has no certificate authorities.
    pub fn without_file(&self) -> Result<Option<Config>, TlsError> {
        let Some((to, limit)) = self.to.clone().zip(self.limit) else { return Ok(None) };
        Config::single(self.listen.0.clone(), to.0, limit, self.key.0.clone()).map(Some)
    }
}

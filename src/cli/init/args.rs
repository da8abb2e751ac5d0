//! The arguments of `tollgate init`.

use std::path::PathBuf;

use clap::Args;

pub const EXAMPLES: &str = "\
Examples:
  tollgate init                      asks five questions, and writes gateway.yaml
  tollgate init --to http://127.0.0.1:9000 --limit 100/minute
  tollgate init --to http://127.0.0.1:9000 --trusted-proxies 10.0.0.0/8 --key api_key edge.yaml
  tollgate init --to builtin:echo --print
Without a terminal nothing is asked, and --to is needed.
Exit code 0: written; 2: wrong usage, or the file is there already.";

#[derive(Clone, Debug, Args)]
pub struct InitArgs {
    /// The file
    #[arg(value_name = "FILE", default_value = "gateway.yaml")]
    pub file: PathBuf,
    /// The backend, such as http://127.0.0.1:9000
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// The limit, such as 100/minute
    #[arg(long, value_name = "RATE")]
    pub limit: Option<String>,
    /// What a client is: ip, api_key, cookie:NAME or header:NAME
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Where to listen [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// The networks of proxies in front of the gateway, such as 10.0.0.0/8,192.0.2.7
    #[arg(long, value_name = "NETWORKS")]
    pub trusted_proxies: Option<String>,
    /// The Redis that several gateways share
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// The admin listener, such as 127.0.0.1:9901 or unix:/run/tollgate/admin.sock
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
    /// Replace a file that is there
    #[arg(long, conflicts_with = "print")]
    pub force: bool,
    /// Print the configuration, and write no file
    #[arg(long)]
    pub print: bool,
}

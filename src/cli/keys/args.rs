//! The arguments of commands about a store: `tollgate key` and `tollgate team`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::which::DEFAULT_CONFIG;

pub const TEAM_EXAMPLES: &str = "\
Examples:
  tollgate team set acme --plan pro --limit per-team=5000/minute
  tollgate team list";

#[derive(Debug, Args)]
pub struct TeamArgs {
    /// The configuration
    #[arg(short, long, global = true, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    #[command(subcommand)]
    pub command: TeamCommand,
}

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// List the keys of the store
    List {
        /// Only those of this team
        #[arg(long)]
        team: Option<String>,
        /// Only those in this state: active, expired, disabled or revoked
        #[arg(long, value_parser = ["active", "expired", "disabled", "revoked"])]
        state: Option<String>,
        /// Print JSON, one key a line
        #[arg(long)]
        json: bool,
    },
    /// Show one key, without its text
    Show {
        /// The id of the key
        id: String,
    },
    /// Change fields of a key
    Set {
        /// The id of the key
        id: String,
        #[command(flatten)]
        fields: Fields,
        /// Switch the key on again
        #[arg(long, conflicts_with = "disabled")]
        enabled: bool,
        /// Remove these fields: name, team, plan, expires, limits, labels
        #[arg(long, value_name = "FIELD", value_parser = ["name", "team", "plan", "expires", "limits", "labels"])]
        unset: Vec<String>,
    },
    /// Make a new secret beside the old one, and print its text
    Rotate {
        /// The id of the key
        id: String,
        /// How long the old secret is accepted, 0s to 30d
        #[arg(long, value_name = "TIME", default_value = "1d")]
        overlap: String,
    },
    /// Withdraw a key for ever
    Revoke {
        /// The id of the key
        id: String,
    },
    /// Print the id of the key whose text is on standard input
    Find,
    /// Store the keys that are on standard input
    Import {
        /// The form of the input
        #[arg(long)]
        from: ImportForm,
        /// Take keys with fewer than 22 characters, which can be found by trial
        #[arg(long)]
        weak: bool,
        /// The policy that gets the requests in a minute of a key of LiteLLM as its limit
        #[arg(long, value_name = "POLICY")]
        rpm: Option<String>,
        /// The policy that gets the tokens in a minute of a key of LiteLLM as its limit
        #[arg(long, value_name = "POLICY")]
        tpm: Option<String>,
    },
    /// Print all keys and teams as a key file, with the hashes of the texts
    Export,
}

#[derive(Debug, Subcommand)]
pub enum TeamCommand {
    /// Say what the keys of a team have in common
    Set {
        /// The name of the team
        name: String,
        /// The plan of its keys that have none of their own
        #[arg(long)]
        plan: Option<String>,
        /// A limit of its keys: POLICY=LIMIT
        #[arg(long = "limit", value_name = "POLICY=LIMIT", value_parser = pair)]
        limits: Vec<(String, String)>,
        /// A label of its keys: NAME=VALUE
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
    },
    /// List the teams
    List,
}

/// What is said of a key.
#[derive(Clone, Debug, Default, Args)]
pub struct Fields {
    /// What people call it
    #[arg(long)]
    pub name: Option<String>,
    /// The team that it belongs to
    #[arg(long)]
    pub team: Option<String>,
    /// Its plan
    #[arg(long)]
    pub plan: Option<String>,
    /// The date from which on it is not accepted, such as 2027-06-30
    #[arg(long, value_name = "DATE")]
    pub expires: Option<String>,
    /// Switch it off
    #[arg(long)]
    pub disabled: bool,
    /// A limit: POLICY=LIMIT. All limits are replaced
    #[arg(long = "limit", value_name = "POLICY=LIMIT", value_parser = pair)]
    pub limits: Vec<(String, String)>,
    /// A label: NAME=VALUE. All labels are replaced
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    pub labels: Vec<(String, String)>,
}

/// The form of keys that are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportForm {
    /// A key file, as export prints it
    File,
    /// Lines with commas, of which the first names the columns: key or sha256, and id, name, team,
    /// plan, expires
    Csv,
    /// A declarative configuration of Kong, with `keyauth_credentials`
    Kong,
    /// Rows of keys of Unkey, in JSON or CSV, with `hash`
    Unkey,
    /// Rows of the table `LiteLLM_VerificationToken` of LiteLLM, in JSON or CSV
    Litellm,
}

pub fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    let pair = pair.ok_or_else(|| "write a name, = and a value".to_owned())?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

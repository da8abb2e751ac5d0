//! The arguments of `tollgate key`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

pub const EXAMPLES: &str = "\
Examples:
  tollgate key create --file keys.yaml --name \"acme, production\" --team acme
  tollgate key create --prefix acme --expires 2027-06-30 --limit per-key=500/minute --label env=prod
  tollgate key hash < key.txt
The text of a key is printed once. A file has only its hash.";

#[derive(Debug, ClapArgs)]
pub struct KeyArgs {
    #[command(subcommand)]
    pub command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key: print its text, and write its entry into a file or print that, too
    Create(CreateArgs),
    /// Print the hash of a key, which is read from standard input
    Hash,
}

#[derive(Debug, ClapArgs)]
pub struct CreateArgs {
    /// The file with the keys, which is changed or made
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// What the key begins with, as client.keys.prefix says it
    #[arg(long, value_name = "WORD", default_value = tollgate_core::api_keys::PREFIX)]
    pub prefix: String,
    /// What people call it
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// The team that it belongs to
    #[arg(long, value_name = "NAME")]
    pub team: Option<String>,
    /// The plan that it has
    #[arg(long, value_name = "NAME")]
    pub plan: Option<String>,
    /// The day from which on it is not accepted any more, such as 2027-06-30
    #[arg(long, value_name = "DATE")]
    pub expires: Option<String>,
    /// Its limit for a policy, such as per-key=500/minute; several times for several
    #[arg(long = "limit", value_name = "POLICY=LIMIT")]
    pub limits: Vec<String>,
    /// A label, such as env=prod; several times for several
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
}

//! The arguments of `tollgate key`.

use std::collections::BTreeMap;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use crate::api_keys::{KeyFields, NewKeyForm};
use crate::cli::keys::{StoreCommand, pair};
use crate::cli::which::DEFAULT_CONFIG;

pub const EXAMPLES: &str = "\
Examples:
  tollgate key create --file keys.yaml --name \"acme, production\" --team acme
  tollgate key create --prefix acme --expires 2027-06-30 --limit per-key=500/minute --label env=prod
  tollgate key hash < key.txt
In the store of a configuration (-c):
  tollgate key create --store --first --name acme-prod --team acme --plan pro
  tollgate key list --team acme --state active
  tollgate key set 7f2m9qd0v3xk --limit per-key=500/minute --expires 2027-06-30
  tollgate key rotate 7f2m9qd0v3xk --overlap 7d
  tollgate key revoke 7f2m9qd0v3xk
  tollgate key find < leaked.txt
  tollgate key export > keys.yaml
  tollgate key import --from file < keys.yaml
The text of a key is printed once. A file has only its hash.";

#[derive(Debug, ClapArgs)]
pub struct KeyArgs {
    /// The configuration, which says where the store of keys is
    #[arg(short, long, global = true, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    #[command(subcommand)]
    pub command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key: print its text, and write its entry into a file or print that, too
    Create(CreateArgs),
    /// Print the hash of a key, which is read from standard input
    Hash,
    #[command(flatten)]
    Stored(StoreCommand),
}

#[derive(Debug, ClapArgs)]
pub struct CreateArgs {
    /// The file with the keys, which is changed or made
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub file: Option<PathBuf>,
    /// Make the key in the store of the configuration
    #[arg(long)]
    pub store: bool,
    /// Begin with keys in a store that has none yet
    #[arg(long, requires = "store")]
    pub first: bool,
    /// Its id in the store, of 12 characters [default: a random one]
    #[arg(long, requires = "store")]
    pub id: Option<String>,
    /// What the key begins with, as client.keys.prefix says it; --store uses that prefix
    #[arg(
        long,
        value_name = "WORD",
        default_value = tollgate_core::api_keys::PREFIX,
        conflicts_with = "store"
    )]
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
    /// Its limit for a policy, such as per-key=500/minute or "team=20 usd"; several times for several
    #[arg(long = "limit", value_name = "POLICY=LIMIT")]
    pub limits: Vec<String>,
    /// A label, such as env=prod; several times for several
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
}

impl CreateArgs {
    /// The key that is to be made in a store.
    ///
    /// # Errors
    /// If a limit or a label is not written as a pair.
    pub fn stored(&self) -> Result<NewKeyForm, String> {
        let pairs = |texts: &[String]| -> Result<BTreeMap<String, String>, String> {
            texts.iter().map(|text| pair(text)).collect()
        };
        let fields = KeyFields {
            name: self.name.clone(),
            team: self.team.clone(),
            plan: self.plan.clone(),
            expires: self.expires.clone(),
            disabled: false,
            limits: pairs(&self.limits)?,
            labels: pairs(&self.labels)?,
        };
        Ok(NewKeyForm { fields, first: self.first })
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::usage_error;

    /// Regression: another prefix than that of the configuration was ignored without a word.
    #[test]
    fn a_key_of_a_store_has_the_prefix_of_the_configuration() {
        let create = ["tollgate", "key", "create", "--store"];
        assert_eq!(usage_error(create), None);
        let error = usage_error(create.into_iter().chain(["--prefix", "acme"]));
        assert!(error.is_some_and(|it| it.contains("cannot be used with")));
    }
}

//! Keys that are stored from an input of several forms.

use std::collections::BTreeMap;

use tollgate_core::store::keys::KeyStorage;
use tollgate_top::clean;

use super::args::ImportForm;
use super::csv;
use super::foreign::{self, Foreign, PolicyNames, Program};
use crate::api_keys::{Import, Imported, ImportedKey, KeyError, Keys, Seen, TeamForm, Teams};
use crate::cli::console::say;
use crate::config;

/// How many keys are stored in one step.
const BATCH: usize = 500;

/// What an input has.
pub struct Input {
    keys: Vec<ImportedKey>,
    teams: BTreeMap<String, TeamForm>,
    /// What of it is not stored.
    left_out: Vec<String>,
}

/// Reads an input of this form.
///
/// # Errors
/// If it cannot be read, or has nothing.
pub fn read(from: ImportForm, text: &str, policies: &PolicyNames) -> Result<Input, String> {
    let input = read_any(from, text, policies)?;
    if input.keys.is_empty() && input.teams.is_empty() && input.left_out.is_empty() {
        return Err("the input has no keys".to_owned());
    }
    Ok(input)
}

fn read_any(from: ImportForm, text: &str, policies: &PolicyNames) -> Result<Input, String> {
    if from != ImportForm::Litellm && (policies.rpm.is_some() || policies.tpm.is_some()) {
        return Err("--rpm and --tpm are for --from litellm".to_owned());
    }
    let mut input = Input { keys: Vec::new(), teams: BTreeMap::new(), left_out: Vec::new() };
    let program = match from {
        ImportForm::Csv => {
            input.keys = csv::read(text)?;
            return Ok(input);
        }
        ImportForm::File => {
            let file = config::imported_keys(text)?;
            return Ok(Input { keys: file.keys, teams: file.teams, ..input });
        }
        ImportForm::Kong => Program::Kong,
        ImportForm::Unkey => Program::Unkey,
        ImportForm::Litellm => Program::LiteLlm,
    };
    let Foreign { keys, report } = foreign::read(program, text, policies)?;
    Ok(Input { keys, left_out: report.lines().collect(), ..input })
}

/// How many keys became what.
#[derive(Default)]
struct Totals {
    stored: usize,
    present: usize,
    refused: usize,
}

impl Totals {
    /// Adds a part of the import, and says why keys are refused.
    fn add(&mut self, done: &Imported) {
        self.stored += done.stored.len();
        self.present += done.present.len();
        self.refused += done.refused.len();
        done.refused.iter().for_each(|why| say(&clean::text(why)));
        done.warning.iter().for_each(|warning| say(warning));
    }

    fn say(&self) {
        let Self { stored, present, .. } = self;
        say(&format!("{stored} keys are stored, and {present} were there before"));
    }
}

/// Stores the keys and teams of an input, and says what became of them. Returns how many keys are
/// refused.
pub async fn store(
    input: Input,
    weak: bool,
    keys: &Keys,
    storage: &dyn KeyStorage,
) -> Result<usize, KeyError> {
    let Input { keys: imported, teams, left_out } = input;
    if imported.iter().any(|key| !key.sha256.is_empty()) {
        say("the length of keys of which only the hash is known is not known: the limit of \
             failures (client.failures) is their protection");
    }
    if !left_out.is_empty() {
        say("not carried over, by the numbers of the keys in the input:");
        left_out.iter().for_each(|line| say(&format!("- {}", clean::text(line))));
    }
    for (name, form) in &teams {
        let (.., written) = keys.set_team(name, form, Some(&Seen::Anything), &Teams::All).await?;
        written.check()?;
    }
    let mut totals = Totals::default();
    for (index, batch) in imported.chunks(BATCH).enumerate() {
        let batch = Import { keys: batch.to_vec(), weak };
        match keys.import(&batch, &Teams::All, index * BATCH).await {
            Ok(done) => totals.add(&done),
            Err(error) => {
                if let KeyError::Interrupted { done, .. } = &error {
                    totals.add(done);
                }
                totals.say();
                return Err(error);
            }
        }
    }
    totals.say();
    if totals.stored + totals.present > 0 || !teams.is_empty() {
        // From now on, a key that is not there is unknown.
        storage.begin().await?;
    }
    Ok(totals.refused)
}

//! What operators write to change a policy.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use tollgate_core::text::is_printable;
use tollgate_core::time::{Span, Timestamp};

use super::{Change, Definition, Definitions, Entry, Mistake, Values};

/// The most characters of a reason.
const MAX_REASON: usize = 500;
/// The most plans that a change names.
const MAX_PLANS: usize = 64;
/// The shortest and the longest time of a change.
const TIME: [Span; 2] = [Span::SECOND, Span::from_secs(366 * 86_400)];

/// The body of a patch. A field that is absent stays as it is, and `null` goes back to the
/// file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewPatch {
    /// Another limit in the same window, such as `200/1m`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    limit: Option<Option<String>>,
    /// The burst of a bucket.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<u64>")]
    burst: Option<Option<u64>>,
    /// What is admitted beyond the limit, such as `10%`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    soft: Option<Option<String>>,
    /// `enforce` or `shadow`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    mode: Option<Option<String>>,
    /// The limits of plans that the file defines.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<BTreeMap<String, Option<String>>>")]
    plans: Option<Option<BTreeMap<String, Option<String>>>>,
    /// When it ends, such as `30m`: from 1s to 366d. Without it, it has no end of its own.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// Why, for others: one line of at most 500 characters, all of them printable.
    #[schemars(length(max = MAX_REASON))]
    reason: String,
    persist: bool,
}

/// The body of a candidate, which replaces another one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCandidate {
    /// The limit, such as `50/1h`.
    limit: String,
    /// The burst of a bucket.
    #[serde(default)]
    burst: Option<u64>,
    /// Another algorithm, as in the file.
    #[serde(default)]
    algorithm: Option<String>,
    /// Other limits of plans that the file defines.
    #[serde(default)]
    plans: BTreeMap<String, String>,
    /// When it ends, such as `1d`: from 1s to 366d.
    #[serde(rename = "for")]
    lasts: String,
    /// Why, for others: one line of at most 500 characters, all of them printable.
    #[serde(default)]
    #[schemars(length(max = MAX_REASON))]
    reason: String,
}

/// Tells `null` from an absent field.
pub fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl NewPatch {
    /// Whether the values are to be written into the file.
    pub const fn persists(&self) -> bool {
        self.persist
    }

    /// `before` with this patch. It is about the same definition.
    ///
    /// # Errors
    /// The mistakes that do not depend on the policy.
    pub fn applied(
        self,
        before: Entry,
        definitions: &Definitions,
        actor: &str,
        now: Timestamp,
    ) -> Result<Entry, Vec<Mistake>> {
        let present = before.patch.clone().unwrap_or_default();
        if self.persist && self.lasts.is_some() {
            let help = "leave out \"for\" or \"persist\"";
            return Err(vec![Mistake::new("what is written into the file has no end", help)]);
        }
        let mut values = present.values;
        replace(&mut values.limit, self.limit);
        replace(&mut values.burst, self.burst);
        replace(&mut values.soft, self.soft);
        replace(&mut values.mode, self.mode);
        match self.plans {
            None => {}
            Some(None) => values.plans.clear(),
            Some(Some(plans)) => {
                for (name, limit) in plans {
                    match limit {
                        Some(limit) => drop(values.plans.insert(name, limit)),
                        None => drop(values.plans.remove(&name)),
                    }
                }
            }
        }
        if values == Values::default() {
            let help = "name at least one of limit, burst, soft, mode, plans; or remove the patch";
            return Err(vec![Mistake::new("the patch changes nothing", help)]);
        }
        let lasts = self.lasts.as_deref();
        let change = change(values, lasts, self.reason, definitions, actor, now)?;
        Ok(Entry { patch: Some(change), ..before })
    }
}

impl NewCandidate {
    /// `before` with this candidate. It is about the same definition.
    ///
    /// # Errors
    /// The mistakes that do not depend on the policy.
    pub fn applied(
        self,
        before: Entry,
        definitions: &Definitions,
        actor: &str,
        now: Timestamp,
    ) -> Result<Entry, Vec<Mistake>> {
        let Self { limit, burst, algorithm, plans, lasts, reason } = self;
        let values = Values { limit: Some(limit), burst, algorithm, plans, ..Values::default() };
        let change = change(values, Some(&lasts), reason, definitions, actor, now)?;
        Ok(Entry { candidate: Some(change), ..before })
    }
}

impl Definition {
    /// What a change of this policy begins with: the present entry, if it is about this
    /// definition, without changes that have ended.
    pub fn begun(&self, present: Option<Entry>, now: Timestamp) -> Entry {
        let same = present.filter(|entry| entry.digest == self.digest);
        let empty = || Entry { digest: self.digest.clone(), ..Entry::default() };
        same.and_then(|entry| entry.at(now)).unwrap_or_else(empty)
    }
}

fn replace<T>(value: &mut Option<T>, given: Option<Option<T>>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// A change to these values, from now on.
///
/// # Errors
/// All mistakes in the time and the reason.
pub fn change(
    values: Values,
    lasts: Option<&str>,
    reason: String,
    definitions: &Definitions,
    actor: &str,
    now: Timestamp,
) -> Result<Change, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    if reason.chars().count() > MAX_REASON || !reason.chars().all(is_printable) {
        let message = format!(
            "a reason is one line of at most {MAX_REASON} characters, all of them printable"
        );
        mistakes.push(Mistake::new(message, ""));
    }
    if values.plans.len() > MAX_PLANS {
        mistakes.push(Mistake::new(format!("there are more than {MAX_PLANS} plans"), ""));
    }
    let ends_us = match lasts.map(definitions.duration).transpose() {
        Ok(Some(time)) if time < TIME[0] || time > TIME[1] => {
            mistakes.push(Mistake::new("\"for\" is out of range", "write from 1s to 366d"));
            None
        }
        Ok(time) => time.map(|time| now.plus(time).as_micros()),
        Err(mistake) => {
            mistakes.push(mistake);
            None
        }
    };
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    Ok(Change { values, reason, actor: actor.to_owned(), since_us: now.as_micros(), ends_us })
}

//! Changes of the modes of access lists at run time. They are entries like those of policies,
//! under names that no policy has.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::AccessMode;
use tollgate_core::time::Timestamp;

use super::request::{change, given};
use super::{Definitions, Entry, ListDefinition, Mistake, Values};

/// What precedes the name of a list in that of its entry. The names of policies have no tab.
const PREFIX: &str = "access\t";

/// The name of the entry with the changes of a list.
pub fn entry_of(list: &str) -> String {
    format!("{PREFIX}{list}")
}

/// The list that an entry of this name changes. None: it is one of a policy.
pub fn list_of(entry: &str) -> Option<&str> {
    entry.strip_prefix(PREFIX)
}

/// The body of a change of an access list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewMode {
    /// `enforce`, `shadow` or `off`. `null` goes back to the file.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    mode: Option<Option<String>>,
    /// When it ends, such as `30m`: from 1s to 366d. Without it, it has no end of its own.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// Why, for others: one line of at most 500 characters, all of them printable.
    #[schemars(length(max = 500))]
    reason: String,
}

impl NewMode {
    /// The entry of the list with this mode. Without a change, it has none.
    ///
    /// # Errors
    /// All mistakes.
    pub fn applied(
        self,
        definition: &ListDefinition,
        definitions: &Definitions,
        actor: &str,
        now: Timestamp,
    ) -> Result<Entry, Vec<Mistake>> {
        let help = "write enforce, shadow or off; or null to go back to the file";
        let Some(mode) = self.mode else {
            return Err(vec![Mistake::new("the change has no \"mode\"", help)]);
        };
        let entry = Entry { digest: definition.digest.clone(), ..Entry::default() };
        let Some(mode) = mode else {
            return match self.lasts {
                None => Ok(entry),
                Some(_) => {
                    let message = "what goes back to the file has no end";
                    Err(vec![Mistake::new(message, "leave out \"for\"")])
                }
            };
        };
        if AccessMode::of(&mode).is_none() {
            return Err(vec![Mistake::new("this is not a mode of an access list", help)]);
        }
        let values = Values { mode: Some(mode), ..Values::default() };
        let lasts = self.lasts.as_deref();
        let patch = change(values, lasts, self.reason, definitions, actor, now)?;
        Ok(Entry { patch: Some(patch), ..entry })
    }
}

/// The mode that an entry gives its list. The error says why this node cannot apply it.
pub fn mode_in(values: &Values) -> Result<AccessMode, &'static str> {
    let others = Values { mode: None, ..values.clone() };
    let mode = values.mode.as_deref().and_then(AccessMode::of);
    mode.filter(|_| others == Values::default())
        .ok_or("this version of the gateway cannot read the entry")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::Value;
    use tollgate_core::policy::{AccessEffect, AccessList, DenialAnswer};
    use tollgate_core::time::Span;

    use super::*;
    use crate::patches::ConfigIdentity;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn list() -> ListDefinition {
        let mode = AccessMode::Off;
        let answer = DenialAnswer::Forbidden;
        let list = AccessList::new("office".into(), vec![], AccessEffect::Deny, mode, answer);
        ListDefinition { list: Arc::new(list), digest: "d".to_owned(), written: Value::Null }
    }

    fn applied(body: &str) -> Result<Entry, Vec<Mistake>> {
        let seconds = |text: &str| {
            let seconds = text.parse().map_err(|_| Mistake::new("no duration", ""))?;
            Ok(Span::from_secs(seconds))
        };
        let compile = |_: &str, _: &Values, _| Err(vec![]);
        let identity = ConfigIdentity::default();
        let definitions = Definitions::new(vec![], identity, Arc::new(compile), seconds);
        let new: NewMode = serde_json::from_str(body).expect("it is a change");
        new.applied(&list(), &definitions, "ann", NOW)
    }

    #[test]
    fn a_mode_becomes_an_entry_and_null_ends_it() {
        let entry = applied(r#"{"mode":"enforce","for":"30","reason":"x"}"#).expect("it is good");
        let patch = entry.patch.expect("a patch");
        assert_eq!(
            (mode_in(&patch.values), patch.ends_us),
            (Ok(AccessMode::Enforce), Some(1_030_000_000))
        );
        assert_eq!((&*patch.actor, &*patch.reason, &*entry.digest), ("ann", "x", "d"));
        assert_eq!(applied(r#"{"mode":null}"#).expect("it is good").patch, None);
    }

    #[test]
    fn mistakes_are_told() {
        for (body, expected) in [
            ("{}", "no \"mode\""),
            (r#"{"mode":"on"}"#, "not a mode"),
            (r#"{"mode":null,"for":"30"}"#, "no end"),
            (r#"{"mode":"off","for":"soon"}"#, "no duration"),
            (r#"{"mode":"off","reason":"a\nb"}"#, "one line"),
        ] {
            let mistakes = applied(body).expect_err(body);
            assert!(mistakes[0].message.contains(expected), "{body}: {mistakes:?}");
        }
        for body in [r#"{"limit":"1/s"}"#, r#"{"mode":5}"#] {
            assert!(serde_json::from_str::<NewMode>(body).is_err(), "{body}");
        }
    }

    #[test]
    fn an_entry_with_other_values_is_one_of_a_later_version() {
        let of = |mode: Option<&str>, limit: Option<&str>| {
            let text = |it: &str| it.to_owned();
            mode_in(&Values { mode: mode.map(text), limit: limit.map(text), ..Values::default() })
        };
        assert_eq!(of(Some("off"), None), Ok(AccessMode::Off));
        for (mode, limit) in [(None, None), (Some("on"), None), (Some("off"), Some("1/s"))] {
            assert!(of(mode, limit).is_err(), "{mode:?} {limit:?}");
        }
    }

    proptest! {
        #[test]
        fn the_entry_of_a_list_is_none_of_a_policy(name in "[ -~]{1,128}") {
            let entry = entry_of(&name);
            prop_assert_eq!(list_of(&entry), Some(&*name));
            prop_assert_eq!(list_of(&name), None, "policies have such names");
        }
    }
}

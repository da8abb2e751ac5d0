//! `allow` and `deny`: a list whose first rule that matches decides.

use std::collections::HashMap;

use super::levels::Levels;
use super::pages::replaced;
use crate::network::{masked, network};
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;

/// The access lists that were made.
pub struct Access {
    made: HashMap<String, String>,
    /// Why rules do not compare the address of the client.
    unlike: Option<String>,
}

impl Access {
    /// No list. `unlike` is why rules do not compare the address of the client.
    pub fn new(unlike: Option<String>) -> Self {
        Self { made: HashMap::new(), unlike }
    }

    /// The name of the list of a place.
    pub fn of(
        &mut self,
        levels: &Levels<'_>,
        plan: &mut Plan,
        notes: &mut Notes,
    ) -> Option<String> {
        let rules = levels.nearest_of(&["allow", "deny"]);
        let first = rules.first()?;
        let mut list = Vec::new();
        for rule in &rules {
            let conditions = match (rule.arg(0), &self.unlike) {
                ("all", _) => Map::default(),
                (_, Some(why)) => {
                    notes.lost(&rule.name, rule.place, format!("{why}: write the rule by hand"));
                    continue;
                }
                (text, None) if network(text).is_some() => {
                    Map::default().with("ips", vec![masked(text)])
                }
                (text, None) => {
                    let what = format!("{text} is no address: write the rule by hand");
                    notes.lost(&rule.name, rule.place, what);
                    continue;
                }
            };
            list.push(Value::from(Map::default().with(&rule.name, conditions)));
        }
        if list.is_empty() {
            return None;
        }
        let mut access = Map::default().with("rules", Value::List(list)).with("else", "allow");
        let status = match rules.iter().any(|it| it.name == "deny") {
            true => replaced(403, |status| [403, 404, 503].contains(&status), levels, notes),
            false => 403,
        };
        if status != 403 {
            access.put("status", u64::from(status));
        }
        let text = crate::out::flow(&access.clone().into());
        let name = match self.made.get(&text) {
            Some(name) => name.clone(),
            None => {
                let name = plan.access.add("rules", first.place, access);
                self.made.insert(text, name.clone());
                name
            }
        };
        for rule in rules {
            if rule.arg(0) == "all" || (network(rule.arg(0)).is_some() && self.unlike.is_none()) {
                notes.taken(&rule.name, rule.place, format!("access list {name:?}"));
            }
        }
        Some(name)
    }
}

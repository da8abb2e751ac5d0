//! Policies and their changes, for people.

use std::fmt::Write as _;

use serde_json::Value;
use tollgate_core::algorithm::WindowText;
use tollgate_core::decision::REFUSING;
use tollgate_core::time::Span;
use tollgate_top::texts::amount;

use super::times::between;
use crate::cli::console::quoted;
use crate::cli::paint::{FAINT, GOOD, STRONG, WARNING, paint};

/// What is told of a change.
pub struct Changing<'c> {
    pub policy: &'c str,
    /// The arguments by which the same gateway is found again.
    pub gateway: String,
    /// Whether the file has it, too.
    pub is_persistent: bool,
}

impl Changing<'_> {
    /// A limit was set.
    pub fn set(&self, before: &Value, after: &Value) -> String {
        let old = limit(&before["limit"]);
        let new = limit(&after["limit"]);
        let mut text = self.limits(&old, &new);
        let end = match (&after["patch"]["ends"], self.is_persistent) {
            (Value::String(ends), _) => format!("until {ends}"),
            (_, true) => "also in the file".to_owned(),
            _ => "until it is undone, or the file changes the policy".to_owned(),
        };
        row(&mut text, "In force", &format!("{}, {end}", scope(after)));
        let undo = self.command(&format!("undo {}", self.name()));
        // An earlier change, of the limit or of another value, would be undone with this one.
        let is_first = before["patch"].is_null();
        match (self.is_persistent, is_first) {
            // The file has the new value, so its old one is set, not gone back to.
            (true, _) => {
                let set = self.setting(&in_file(before));
                row(&mut text, "Undo", &self.command(&format!("{set} --persist")));
            }
            (false, false) => match for_its_rest(before, after) {
                Some(lasts) => {
                    let set = self.setting(&old);
                    row(&mut text, "Undo", &self.command(&format!("{set}{lasts}")));
                    row(&mut text, "", &undo);
                }
                // The earlier change has ended.
                None => row(&mut text, "Undo", &undo),
            },
            (false, true) => row(&mut text, "Undo", &undo),
        }
        text
    }

    /// Another limit is tried.
    pub fn tried(&self, after: &Value) -> String {
        let tried = &after["candidate"];
        let name = paint(STRONG, self.policy);
        let mut text = format!(
            "{name}: {} is tried beside {}, and refuses nothing\n",
            paint(GOOD, limit(&tried["limit"])),
            limit(&after["limit"])
        );
        row(&mut text, "In force", &format!("{}, until {}", scope(after), word(&tried["ends"])));
        row(&mut text, "Complete", &format!("from {} on", word(&tried["warming_until"])));
        row(&mut text, "See", &self.command(&format!("show {}", self.name())));
        row(&mut text, "Apply", &self.command(&format!("apply {}", self.name())));
        row(&mut text, "Undo", &self.end());
        text
    }

    /// The command that ends the trial of another limit.
    pub fn end(&self) -> String {
        self.command(&format!("undo {} --trial", self.name()))
    }

    /// A change was removed.
    pub fn undone(&self, what: &str, before: &Value, after: &Value) -> String {
        let name = paint(STRONG, self.policy);
        if after["removed"] == true {
            return format!("{name}: the change is removed; this node has no such policy\n");
        }
        if what == "candidate" {
            let tried = limit(&before["candidate"]["limit"]);
            return format!("{name}: {tried} is tried no more\n");
        }
        let mut text = self.limits(&limit(&before["limit"]), &limit(&after["limit"]));
        row(&mut text, "In force", &format!("{}, as in the file", scope(after)));
        text
    }

    fn limits(&self, old: &str, new: &str) -> String {
        format!("{}: {old} -> {}\n", paint(STRONG, self.policy), paint(GOOD, new))
    }

    fn name(&self) -> String {
        quoted(self.policy)
    }

    /// The arguments that set a limit.
    fn setting(&self, limit: &str) -> String {
        format!("set {} {}", self.name(), quoted(limit))
    }

    fn command(&self, end: &str) -> String {
        let Self { gateway, .. } = self;
        format!("tollgate policy {end}{gateway}")
    }
}

/// All policies as a table.
pub fn list(items: &Value) -> String {
    let mut rows =
        vec![["POLICY", "LIMIT", "KEY", "MODE", "1 MIN", "REFUSED", "CHANGED"].map(str::to_owned)];
    for it in items.as_array().into_iter().flatten() {
        let (all, refused) = minute(it);
        let patch = Some(&it["patch"]).filter(|patch| !patch.is_null());
        let patch = patch.map(|patch| match patch["ends"].as_str() {
            Some(ends) => format!("until {ends}"),
            None => "until undone".to_owned(),
        });
        let tried = Some(&it["candidate"]).filter(|tried| !tried.is_null());
        let tried = tried.map(|tried| format!("tries {}", limit(&tried["limit"])));
        let changed: Vec<String> = patch.into_iter().chain(tried).collect();
        rows.push([
            word(&it["name"]),
            limit(&it["limit"]),
            word(&it["key"]),
            word(&it["mode"]),
            all.to_string(),
            refused.to_string(),
            changed.join(", "),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..7).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        let _ = match index {
            0 => writeln!(text, "{}", paint(FAINT, line)),
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

/// One policy in lines.
pub fn show(it: &Value) -> String {
    let mut text = format!("{}\n", paint(STRONG, word(&it["name"])));
    row(&mut text, "Limit", &format!("{} ({})", limit(&it["limit"]), word(&it["algorithm"])));
    row(&mut text, "Key", &word(&it["key"]));
    row(&mut text, "Mode", &word(&it["mode"]));
    if let Some(plans) = it["plans"]["limits"].as_object() {
        let plans = plans.iter().map(|(name, value)| format!("{name} {}", limit(value)));
        row(&mut text, "Plans", &plans.collect::<Vec<_>>().join(", "));
    }
    let (all, refused) = minute(it);
    row(&mut text, "1 min", &format!("{all} decisions, {refused} refused"));
    if let Some(near) = it["use"]["near"].as_f64() {
        row(
            &mut text,
            "Near",
            &format!("{:.0} % of clients above 80 % of the limit", near * 100.0),
        );
    }
    let patch = &it["patch"];
    if !patch.is_null() {
        let ends =
            patch["ends"].as_str().map_or("until undone".to_owned(), |it| format!("until {it}"));
        let by = format!(
            "by {} since {}, {ends}{}",
            word(&patch["actor"]),
            word(&patch["since"]),
            reason(patch)
        );
        row(&mut text, "Changed", &by);
        if let Some(file) = it["definition"]["limit"].as_str() {
            row(&mut text, "File", file);
        }
    }
    let tried = &it["candidate"];
    if !tried.is_null() {
        let counts = &tried["outcomes"];
        let count = |name: &str| counts[name].as_u64().unwrap_or(0);
        let limit = paint(WARNING, limit(&tried["limit"]));
        row(
            &mut text,
            "Tried",
            &format!("{limit} until {}{}", word(&tried["ends"]), reason(tried)),
        );
        let judged = format!(
            "admits {}, would refuse {}, of which the policy admits {}",
            count("admitted"),
            count("shadow_refused"),
            count("while_live_admitted")
        );
        row(&mut text, "", &judged);
        row(&mut text, "", &format!("complete from {} on", word(&tried["warming_until"])));
    }
    for why in it["ignored"].as_array().into_iter().flatten() {
        row(&mut text, "Ignored", &word(why));
    }
    text
}

/// The counters of a key are forgotten. `key` is the caller's own.
pub fn reset(answer: &Value, key: &str) -> String {
    let policy = paint(STRONG, word(&answer["policy"]));
    let scope = if answer["scope"] == "cluster" {
        "on all nodes that share the store"
    } else {
        "on this node"
    };
    let id = word(&answer["key_id"]);
    let mut text = format!("{policy}: {key} (~{id}) begins again {scope}\n");
    if answer["api_key"] == "unknown" {
        let unseen = "the API key of its requests is not known: a key whose limit has another window \
                      has a counter of its own, which is not forgotten: name the key with --api-key";
        row(&mut text, "But", unseen);
    }
    text
}

fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {}{value}", paint(FAINT, format!("{name:<10}")));
}

fn reason(change: &Value) -> String {
    match change["reason"].as_str() {
        Some(reason) if !reason.is_empty() => format!(": {reason}"),
        _ => String::new(),
    }
}

/// Where changes of a policy are in force.
fn scope(policy: &Value) -> &'static str {
    match policy["changes_scope"] == "cluster" {
        true => "within 2 s on all nodes that share the store",
        false => "on this node alone",
    }
}

/// All decisions of the last minute, and those that refuse.
fn minute(policy: &Value) -> (u64, u64) {
    let counts = policy["outcomes"]["1m"].as_object();
    let count = |name: &str| counts.and_then(|it| it.get(name)?.as_u64()).unwrap_or(0);
    let refused = REFUSING.into_iter().map(count).sum();
    let all = counts.map_or(0, |it| it.values().filter_map(Value::as_u64).sum());
    (all, refused)
}

/// The limit that the file had. One that a patch has set was never in it.
fn in_file(before: &Value) -> String {
    let is_changed = !before["patch"]["limit"].is_null();
    match &before["definition"]["limit"] {
        Value::String(written) if is_changed => written.clone(),
        Value::Number(written) if is_changed => written.to_string(),
        _ => limit(&before["limit"]),
    }
}

/// The argument with which an earlier change is made again: it ends when it would have ended. None: it
/// has ended by now.
fn for_its_rest(before: &Value, after: &Value) -> Option<String> {
    match &before["patch"]["ends"] {
        Value::Null => Some(String::new()),
        ends => Some(format!(" --for {}", between(&after["patch"]["since"], ends)?)),
    }
}

/// A limit as the file writes it.
fn limit(value: &Value) -> String {
    match value["units"].as_u64() {
        Some(units) => {
            let units = amount(units, value["unit"].as_str());
            match value["window_ms"].as_u64() {
                None | Some(0) => units,
                Some(ms) => format!("{units}/{}", WindowText(Span::from_millis(ms))),
            }
        }
        None => word(value),
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    /// A limit of requests at the same time is a number.
    #[test]
    fn the_limit_of_the_file_may_be_a_text_or_a_number() {
        for (written, is) in [(json!("5/m"), "5/m"), (json!(5), "5")] {
            let before = json!({
                "definition": { "limit": written }, "patch": { "limit": "9" },
                "limit": { "units": 9, "window_ms": 0 },
            });
            assert_eq!(in_file(&before), is);
        }
    }

    #[test]
    fn limits_and_words_are_written_as_a_command_takes_them() {
        assert_eq!(limit(&json!({ "units": 200, "window_ms": 60_000 })), "200/1m");
        assert_eq!(limit(&json!({ "units": 20, "window_ms": 0 })), "20");
        let money = json!({ "units": 5_000_000, "window_ms": 60_000, "unit": "usd-6" });
        assert_eq!(limit(&money), "5.00 usd/1m");
        assert_eq!(limit(&json!("unlimited")), "unlimited");
    }

    #[test]
    fn a_change_tells_what_was_what_is_until_when_and_how_to_undo_it() {
        let policy = |units: u64, patch: Value| json!({ "limit": { "units": units, "window_ms": 60_000 }, "patch": patch, "changes_scope": "cluster" });
        let changing = |is_persistent| Changing {
            policy: "a b",
            gateway: " -c g.yaml".to_owned(),
            is_persistent,
        };
        let before = policy(100, Value::Null);
        let ends = json!({ "ends": "2026-11-26T10:30:00Z" });
        assert_eq!(
            plain(&changing(false).set(&before, &policy(200, ends))),
            "a b: 100/1m -> 200/1m\n  \
             In force  within 2 s on all nodes that share the store, until 2026-11-26T10:30:00Z\n  \
             Undo      tollgate policy undo 'a b' -c g.yaml\n"
        );
        let patched = policy(150, json!({ "limit": "150/1m" }));
        let twice = plain(&changing(false).set(&patched, &policy(200, json!({ "ends": null }))));
        assert!(twice.contains("set 'a b' 150/1m -c g.yaml\n"), "{twice}");
        assert!(twice.contains("tollgate policy undo 'a b'"), "{twice}");
        // An earlier change that ends is made again for the rest of its time.
        let ending = json!({ "limit": "150/1m", "ends": "2026-11-26T10:30:00.000Z" });
        let ending = policy(150, ending);
        for (since, undo) in [
            ("2026-11-26T10:29:18.100Z", "set 'a b' 150/1m --for 42s -c g.yaml\n"),
            ("2026-11-26T10:30:00.000Z", "Undo      tollgate policy undo 'a b' -c g.yaml\n"),
        ] {
            let after = policy(200, json!({ "ends": null, "since": since }));
            let text = plain(&changing(false).set(&ending, &after));
            assert!(text.contains(undo) && text.contains("policy undo 'a b'"), "{text}");
        }
        // The file has never had the limit of a change.
        let mut of_file = patched.clone();
        of_file["definition"] = json!({ "limit": "100/minute" });
        let kept = plain(&changing(true).set(&of_file, &policy(200, Value::Null)));
        assert!(kept.contains("set 'a b' 100/minute --persist -c g.yaml\n"), "{kept}");
        // The change of another value stays if only the limit is undone.
        let burst = policy(100, json!({ "burst": 50 }));
        let after = policy(200, json!({ "limit": "200/1m", "burst": 50 }));
        let merged = plain(&changing(false).set(&burst, &after));
        assert!(
            merged.contains("Undo      tollgate policy set 'a b' 100/1m -c g.yaml\n"),
            "{merged}"
        );
        let kept = plain(&changing(true).set(&before, &policy(200, Value::Null)));
        assert!(
            kept.contains("also in the file\n") && kept.contains("set 'a b' 100/1m --persist"),
            "{kept}"
        );
        let money = |units: u64, patch: Value| json!({ "limit": { "units": units, "window_ms": 86_400_000, "unit": "usd-6" }, "patch": patch });
        let before = money(600_000_000, json!({ "limit": "600 usd/1d" }));
        for is_persistent in [false, true] {
            let after = money(700_000_000, json!({ "ends": null }));
            let text = plain(&changing(is_persistent).set(&before, &after));
            assert!(text.contains(" set 'a b' '600.00 usd/1d' "), "{text}");
        }
    }

    #[test]
    fn a_reset_says_what_it_has_not_forgotten() {
        let mut answer = json!({ "policy": "each", "key_id": "k7f2m9qd0v3x", "scope": "cluster" });
        let done =
            "each: 192.0.2.7 (~k7f2m9qd0v3x) begins again on all nodes that share the store\n";
        assert_eq!(plain(&reset(&answer, "192.0.2.7")), done);
        answer["api_key"] = json!("7f2m9qd0v3xk");
        assert_eq!(plain(&reset(&answer, "192.0.2.7")), done);
        answer["api_key"] = json!("unknown");
        let text = plain(&reset(&answer, "192.0.2.7"));
        assert!(text.starts_with(done) && text.contains("with --api-key"), "{text}");
    }
}

//! Keys of Kong: `keyauth_credentials` of a declarative configuration, which are plain texts. They
//! are in a list of their own, or in the consumers that they belong to.

use serde_json::{Map, Value};

use super::report::{Foreign, Report};
use super::values::{is_empty, label, text};
use crate::api_keys::ImportedKey;
use crate::config;

/// The list of keys, in a consumer and beside the consumers.
const CREDENTIALS: &str = "keyauth_credentials";
/// The labels with the consumer of a key.
const CONSUMER: &str = "consumer";
const CUSTOM_ID: &str = "custom_id";
const NOT_READ: &str = "it is not carried over";
const NOT_FOR_LABEL: &str = "it cannot be the value of a label";
const VAULT: &str = "the key is a reference to a vault, and is left out";
const NO_KEY: &str = "there is no text of a key here, so it is left out";
const TTL: &str = "it counts from the time at which Kong has loaded the key: set --expires";

/// The keys of a configuration.
pub fn read(document: &str) -> Result<Foreign, String> {
    let document = config::foreign_document(document)?;
    let Value::Object(sections) = document else {
        return Err("the input is not a declarative configuration of Kong".to_owned());
    };
    let mut reading = Reading::default();
    for consumer in list(sections.get("consumers")) {
        let fields = consumer.as_object().cloned().unwrap_or_default();
        for credential in list(fields.get(CREDENTIALS)) {
            reading.add(credential, Some(&fields));
        }
    }
    for credential in list(sections.get(CREDENTIALS)) {
        let consumer = credential.get("consumer");
        let named = list(sections.get("consumers")).iter().find(|it| is_named(it, consumer));
        let unknown = || Map::from_iter([("username".to_owned(), name_in(consumer))]);
        let consumer = named.and_then(Value::as_object).cloned().unwrap_or_else(unknown);
        reading.add(credential, Some(&consumer));
    }
    let known = ["consumers", CREDENTIALS];
    let others = sections.iter().filter(|(name, value)| {
        !known.contains(&name.as_str()) && !name.starts_with('_') && !is_empty(value)
    });
    for (section, entries) in others {
        reading.foreign.report.note_section(section, list(Some(entries)).len());
    }
    if reading.foreign.keys.is_empty() && reading.number == 0 {
        return Err(format!("the input has no {CREDENTIALS}, beside or in its consumers"));
    }
    Ok(reading.foreign)
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The name of the consumer of a credential, which is written alone or in an object.
fn name_in(consumer: Option<&Value>) -> Value {
    match consumer {
        Some(Value::Object(fields)) => {
            fields.get("username").or_else(|| fields.get("id")).cloned().unwrap_or_default()
        }
        consumer => consumer.cloned().unwrap_or_default(),
    }
}

/// Whether a consumer is the one that a credential names.
fn is_named(consumer: &Value, named: Option<&Value>) -> bool {
    let name = name_in(named);
    name != Value::Null
        && ["username", "id", "custom_id"].iter().any(|it| consumer.get(it) == Some(&name))
}

#[derive(Default)]
struct Reading {
    foreign: Foreign,
    number: usize,
}

impl Reading {
    /// Reads a key of this consumer.
    fn add(&mut self, credential: &Value, consumer: Option<&Map<String, Value>>) {
        self.number += 1;
        let Foreign { keys, report } = &mut self.foreign;
        let Some(plain) = credential.get("key").and_then(text).filter(|it| !it.is_empty()) else {
            return report.note(self.number, "key", NO_KEY);
        };
        if plain.starts_with("{vault://") {
            return report.note(self.number, "key", VAULT);
        }
        let mut key = ImportedKey { key: Some(plain), ..ImportedKey::default() };
        for (field, value) in credential.as_object().into_iter().flatten() {
            match &**field {
                "key" | "consumer" => {}
                _ if is_empty(value) => {}
                "ttl" => report.note(self.number, field, TTL),
                field => report.note(self.number, field, NOT_READ),
            }
        }
        for (field, value) in consumer.into_iter().flatten() {
            of_consumer(&mut key, self.number, field, value, report);
        }
        keys.push(key);
    }
}

/// Takes a field of the consumer of a key.
fn of_consumer(
    key: &mut ImportedKey,
    number: usize,
    field: &str,
    value: &Value,
    report: &mut Report,
) {
    let name = match field {
        CREDENTIALS => return,
        _ if is_empty(value) => return,
        "username" => CONSUMER,
        "custom_id" => CUSTOM_ID,
        field => return report.note(number, &format!("consumer.{field}"), NOT_READ),
    };
    if name == CONSUMER {
        key.fields.name = text(value);
    }
    match label(value) {
        Some(value) => drop(key.fields.labels.insert(name.to_owned(), value)),
        None => report.note(number, &format!("consumer.{field}"), NOT_FOR_LABEL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_consumers_and_beside_them() {
        let Foreign { keys, report } = read(
            "_format_version: \"3.0\"\n\
             services: [{ name: a, url: http://a.test }]\n\
             consumers:\n\
             - username: ann\n  custom_id: \"7\"\n  groups: [{ name: gold }]\n\
             \x20 keyauth_credentials: [{ key: 0123456789abcdef0123-a, ttl: 60 }, { key: 0123456789abcdef0123-b }]\n\
             - username: bob\n\
             keyauth_credentials:\n\
             - { consumer: bob, key: 0123456789abcdef0123-c, tags: [x] }\n\
             - { consumer: { username: eve }, key: 0123456789abcdef0123-d }\n\
             - { consumer: bob, key: \"{vault://env/key}\" }\n\
             - { consumer: bob }\n",
        )
        .unwrap();
        let texts: Vec<&str> = keys.iter().filter_map(|key| key.key.as_deref()).collect();
        let suffixes: Vec<&str> = texts.iter().map(|text| &text[text.len() - 2..]).collect();
        assert_eq!(suffixes, ["-a", "-b", "-c", "-d"]);
        let consumers: Vec<&str> = keys.iter().map(|key| &*key.fields.labels[CONSUMER]).collect();
        assert_eq!(consumers, ["ann", "ann", "bob", "eve"]);
        assert_eq!(keys[1].fields.labels[CUSTOM_ID], "7");
        assert_eq!(keys[2].fields.name.as_deref(), Some("bob"));
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(
            lines,
            [
                format!("consumer.groups of 2 keys (1, 2): {NOT_READ}"),
                format!("key of 1 key (5): {VAULT}"),
                format!("key of 1 key (6): {NO_KEY}"),
                format!("tags of 1 key (3): {NOT_READ}"),
                format!("ttl of 1 key (1): {TTL}"),
                "services (1): they are not API keys, and are not read".to_owned(),
            ]
        );
    }

    #[test]
    fn an_input_without_keys_is_a_mistake_that_repeats_nothing() {
        for text in ["consumers: []", "- hunter2", "hunter2", "a: [hunter2", "{}"] {
            let error = read(text).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}

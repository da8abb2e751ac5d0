//! The settings that a running gateway does not adopt before a restart, as paths of `gateway.yaml`.
//!
//! Programs that roll out configurations read the list: `tollgate check --json` prints it, and the chart
//! in `packaging/chart` has an equal one, which `scripts/test-chart` compares. Two changes are not in the
//! list because they depend on more than one section: the first policy with `overrides`, and the first
//! `client.keys` with a store. The log and the status of the gateway name these, too.

use serde_json::{Map, Value};

use super::shown;

/// A change below one of these paths needs a restart.
pub const SETTINGS: [&str; 7] = [
    "admin.address",
    "admin.probe",
    "admin.uids",
    "client.keys.store",
    "runtime.workers",
    "store",
    "telemetry",
];

/// Below the others, these are adopted: credentials, certificates, and the number of connections.
pub const EXCEPT: [&str; 7] = [
    "store.redis.connections",
    "store.redis.password",
    "store.redis.password_command",
    "store.redis.password_lifetime",
    "store.redis.sentinel",
    "store.redis.tls",
    "store.redis.username",
];

/// A digest of the settings in `document` that need a restart: 32 hexadecimal digits. It says nothing
/// of secrets if the document is without them.
pub fn digest(document: &Value) -> String {
    let picked = SETTINGS.iter().filter_map(|path| {
        let value = path.split('.').try_fold(document, |value, name| value.get(name))?;
        let mut value = value.clone();
        let below = format!("{path}.");
        EXCEPT
            .iter()
            .filter_map(|it| it.strip_prefix(&below))
            .for_each(|it| remove(&mut value, it));
        Some(((*path).to_owned(), value))
    });
    shown::digest(&Value::Object(picked.collect::<Map<_, _>>()))
}

/// Removes the value at a path, if it is there.
fn remove(value: &mut Value, path: &str) {
    match (path.split_once('.'), value) {
        (Some((name, rest)), Value::Object(fields)) => {
            if let Some(value) = fields.get_mut(name) {
                remove(value, rest);
            }
        }
        (None, Value::Object(fields)) => {
            fields.remove(path);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;

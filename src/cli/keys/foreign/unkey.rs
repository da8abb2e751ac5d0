//! Keys of Unkey: rows in JSON or in lines with commas. `hash` is the SHA-256 of the key, in base64
//! or in hexadecimal digits.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::report::Foreign;
use super::rows::Row;
use super::values::{expires, is_empty, is_true, is_zero, label, text};
use crate::api_keys::ImportedKey;

/// The label with the owner of a key.
const OWNER: &str = "external_id";
const NOT_READ: &str = "it is not carried over";
const DELETED: &str = "the key is deleted, and is left out";
const USED_UP: &str = "no use of the key is left, but here it is accepted: disable it with \
                       tollgate key set --disabled";

pub fn keys(rows: Vec<Row>) -> Foreign {
    let mut foreign = Foreign::default();
    for (index, row) in rows.into_iter().enumerate() {
        let key = key(index + 1, &row, &mut foreign);
        foreign.keys.extend(key);
    }
    foreign
}

fn key(number: usize, row: &Row, foreign: &mut Foreign) -> Option<ImportedKey> {
    let report = &mut foreign.report;
    let mut key = ImportedKey::default();
    for (field, value) in row {
        match &**field {
            "hash" => key.sha256.extend(text(value).map(|hash| hexadecimal(&hash))),
            // It is the only field in which false says something, as 0 does in the next ones.
            "enabled" => key.fields.disabled = !is_true(value) && *value != Value::Null,
            "remaining" | "remaining_requests" if is_zero(value) => {
                report.note(number, field, USED_UP);
            }
            _ if is_empty(value) => {}
            "name" => key.fields.name = text(value),
            "expires" => key.fields.expires = expires(value, number, field, report),
            "external_id" | "externalId" | "owner_id" | "ownerId" => match label(value) {
                Some(owner) => drop(key.fields.labels.insert(OWNER.to_owned(), owner)),
                None => report.note(number, field, "it cannot be the value of a label"),
            },
            "deleted_at" | "deletedAt" | "deleted_at_m" | "deletedAtM" => {
                report.note(number, field, DELETED);
                return None;
            }
            field => report.note(number, field, NOT_READ),
        }
    }
    Some(key)
}

/// A hash in hexadecimal digits. One that is written in another way stays, and is then refused.
fn hexadecimal(hash: &str) -> String {
    match STANDARD.decode(hash) {
        Ok(bytes) if bytes.len() == 32 => {
            bytes.iter().fold(String::new(), |mut text, byte| {
                // A text can always be written to.
                let _ = write!(text, "{byte:02x}");
                text
            })
        }
        _ => hash.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::api_keys::KeyDigest;

    use super::super::rows;
    use super::*;

    fn foreign(text: &str) -> Foreign {
        keys(rows::read(text).unwrap())
    }

    #[test]
    fn hashes_in_base64_become_digits_and_what_is_left_out_is_reported() {
        let digest = KeyDigest::of(b"uk_0123456789abcdef0123");
        let base64 = STANDARD.encode(digest.as_bytes());
        let text = format!(
            r#"{{"keys": [
                {{"hash": "{base64}", "name": "one", "externalId": "acme", "enabled": true,
                  "expires": 1801353600000, "meta": {{"a": 1}}, "remaining": 5}},
                {{"hash": "{digest}", "enabled": false, "meta": "{{}}", "roles": []}},
                {{"hash": "{base64}", "deleted_at": "2026-01-01"}}
            ]}}"#
        );
        let Foreign { keys, report } = foreign(&text);
        assert_eq!(keys.len(), 2);
        assert!(keys.iter().all(|key| key.sha256 == [digest.to_string()]));
        assert_eq!((keys[0].fields.disabled, keys[1].fields.disabled), (false, true));
        assert_eq!(keys[0].fields.expires.as_deref(), Some("2027-01-31"));
        assert_eq!(keys[0].fields.labels["external_id"], "acme");
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(
            lines,
            [
                format!("deleted_at of 1 key (3): {DELETED}"),
                format!("meta of 1 key (1): {NOT_READ}"),
                format!("remaining of 1 key (1): {NOT_READ}"),
            ]
        );
    }

    #[test]
    fn a_key_of_which_no_use_is_left_is_told() {
        let digest = KeyDigest::of(b"uk_0123456789abcdef0123");
        let Foreign { keys, report } = foreign(&format!(
            r#"[{{"hash": "{digest}", "remaining": 0}}, {{"hash": "{digest}", "remaining": null}},
               {{"hash": "{digest}", "remaining_requests": "0"}}]"#
        ));
        assert_eq!(keys.len(), 3);
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(
            lines,
            [
                format!("remaining of 1 key (1): {USED_UP}"),
                format!("remaining_requests of 1 key (3): {USED_UP}"),
            ]
        );
    }

    #[test]
    fn lines_with_commas_are_read_alike() {
        let digest = KeyDigest::of(b"uk_0123456789abcdef0123");
        let base64 = STANDARD.encode(digest.as_bytes());
        let Foreign { keys, report } = foreign(&format!(
            "id,hash,name,owner_id,enabled,expires\nkey_1,{base64},one,acme,1,\nkey_2,x,,,0,\n"
        ));
        assert_eq!(keys[0].sha256, [digest.to_string()]);
        assert_eq!((keys[0].fields.disabled, keys[1].fields.disabled), (false, true));
        assert_eq!(keys[1].sha256, ["x"], "it is refused later");
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(lines, [format!("id of 2 keys (1, 2): {NOT_READ}")]);
    }
}

//! Keys of LiteLLM: rows of its table `LiteLLM_VerificationToken`, in JSON or in lines with commas.
//! `token` is the SHA-256 of the key in hexadecimal digits.

use serde_json::Value;

use super::report::{Foreign, Report};
use super::rows::Row;
use super::values::{expires, is_empty, is_true, is_zero, text, whole};
use crate::api_keys::ImportedKey;

/// What a plain text of a key begins with.
const PLAIN: &str = "sk-";
const NOT_READ: &str = "it is not carried over";
const NO_BUDGET: &str = "it is not carried over: give the key a limit of a policy that counts \
                         money or tokens, with tollgate key set --limit";
const NOTHING: &str = "with 0 LiteLLM refuses every request: the key is disabled";
const NO_RPM: &str = "name the policy that gets the limit: --rpm POLICY";
const NO_TPM: &str = "name the policy that gets the limit: --tpm POLICY";
const NOT_WHOLE: &str = "it is not a whole number: set the limit with tollgate key set --limit";

/// The policies that get the limits of keys.
#[derive(Clone, Debug, Default)]
pub struct PolicyNames {
    /// For requests in a minute.
    pub rpm: Option<String>,
    /// For tokens in a minute.
    pub tpm: Option<String>,
}

pub fn keys(rows: Vec<Row>, policies: &PolicyNames) -> Foreign {
    let mut foreign = Foreign::default();
    for (index, row) in rows.iter().enumerate() {
        foreign.keys.push(key(index + 1, row, policies, &mut foreign.report));
    }
    foreign
}

fn key(number: usize, row: &Row, policies: &PolicyNames, report: &mut Report) -> ImportedKey {
    let mut key = ImportedKey::default();
    for (field, value) in row {
        if is_empty(value) && !(is_bound(field) && is_zero(value)) {
            continue;
        }
        match &**field {
            "rpm_limit" | "tpm_limit" | "max_parallel_requests" if is_zero(value) => {
                key.fields.disabled = true;
                report.note(number, field, NOTHING);
            }
            "token" => match text(value) {
                Some(plain) if plain.starts_with(PLAIN) => key.key = Some(plain),
                token => key.sha256.extend(token),
            },
            "key_alias" => key.fields.name = text(value),
            "team_id" => key.fields.team = text(value),
            "blocked" => key.fields.disabled |= is_true(value),
            "expires" => key.fields.expires = expires(value, number, field, report),
            "max_budget" | "soft_budget" | "model_max_budget" => {
                report.note(number, field, NO_BUDGET);
            }
            "rpm_limit" | "tpm_limit" => {
                let (policy, none) = match &**field {
                    "rpm_limit" => (&policies.rpm, NO_RPM),
                    _ => (&policies.tpm, NO_TPM),
                };
                match limit(policy.as_deref(), value, none) {
                    Ok((policy, limit)) => drop(key.fields.limits.insert(policy, limit)),
                    Err(why) => report.note(number, field, why),
                }
            }
            field => report.note(number, field, NOT_READ),
        }
    }
    key
}

/// Whether 0 is another value of the field than none.
fn is_bound(field: &str) -> bool {
    ["rpm_limit", "tpm_limit", "max_parallel_requests", "max_budget", "soft_budget"]
        .contains(&field)
}

/// The limit of a policy.
fn limit(
    policy: Option<&str>,
    value: &Value,
    none: &'static str,
) -> Result<(String, String), &'static str> {
    let policy = policy.ok_or(none)?;
    let units = whole(value).ok_or(NOT_WHOLE)?;
    Ok((policy.to_owned(), format!("{units}/minute")))
}

#[cfg(test)]
mod tests {
    use super::super::{rows, values};
    use super::*;

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn foreign(text: &str, policies: &PolicyNames) -> Foreign {
        keys(rows::read(text).unwrap(), policies)
    }

    fn with_policies() -> PolicyNames {
        PolicyNames { rpm: Some("per-key".to_owned()), tpm: Some("tokens".to_owned()) }
    }

    #[test]
    fn a_row_keeps_its_hash_and_its_limits_and_the_rest_is_reported() {
        let text = format!(
            r#"[{{"token": "{HASH}", "key_name": "sk-...abcd", "key_alias": "one", "spend": 0.0,
                "team_id": "acme", "max_budget": 12.5, "tpm_limit": 1000, "rpm_limit": "60",
                "expires": "2027-01-31T12:00:00Z", "blocked": true, "models": ["m"]}},
               {{"token": "sk-0123456789abcdef0123", "rpm_limit": null, "models": []}}]"#
        );
        let Foreign { keys, report } = foreign(&text, &with_policies());
        let fields = &keys[0].fields;
        assert_eq!(keys[0].sha256, [HASH]);
        assert_eq!((fields.name.as_deref(), fields.team.as_deref()), (Some("one"), Some("acme")));
        assert_eq!((fields.disabled, fields.expires.as_deref()), (true, Some("2027-01-31")));
        assert_eq!(
            (&*fields.limits["per-key"], &*fields.limits["tokens"]),
            ("60/minute", "1000/minute")
        );
        assert_eq!(keys[1].key.as_deref(), Some("sk-0123456789abcdef0123"));
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(
            lines,
            [
                format!("expires of 1 key (1): {}", values::DAY_ONLY),
                format!("key_name of 1 key (1): {NOT_READ}"),
                format!("max_budget of 1 key (1): {NO_BUDGET}"),
                format!("models of 1 key (1): {NOT_READ}"),
            ]
        );
    }

    #[test]
    fn limits_need_the_names_of_their_policies() {
        let text = format!("token,rpm_limit,tpm_limit,blocked\n{HASH},60,1.5,f\n");
        let Foreign { keys, report } = foreign(&text, &PolicyNames::default());
        assert!(keys[0].fields.limits.is_empty() && !keys[0].fields.disabled);
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(
            lines,
            [
                format!("rpm_limit of 1 key (1): {NO_RPM}"),
                format!("tpm_limit of 1 key (1): {NO_TPM}")
            ]
        );
        let Foreign { keys, report } = foreign(&text, &with_policies());
        assert_eq!(keys[0].fields.limits["per-key"], "60/minute");
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(lines, [format!("tpm_limit of 1 key (1): {NOT_WHOLE}")]);
    }

    /// LiteLLM has null for no limit.
    #[test]
    fn a_limit_of_0_disables_the_key_and_is_told() {
        let text = format!(
            r#"[{{"token": "{HASH}", "rpm_limit": 0, "blocked": false}},
               {{"token": "{HASH}", "tpm_limit": "0", "blocked": null, "spend": 0.0}},
               {{"token": "{HASH}", "blocked": true, "max_parallel_requests": 0.0}},
               {{"token": "{HASH}", "rpm_limit": null, "tpm_limit": "", "max_budget": 0.0}}]"#
        );
        for policies in [with_policies(), PolicyNames::default()] {
            let Foreign { keys, report } = foreign(&text, &policies);
            let disabled: Vec<bool> = keys.iter().map(|key| key.fields.disabled).collect();
            assert_eq!(disabled, [true, true, true, false]);
            assert!(keys.iter().all(|key| key.fields.limits.is_empty()));
            let lines: Vec<String> = report.lines().collect();
            assert_eq!(
                lines,
                [
                    format!("max_budget of 1 key (4): {NO_BUDGET}"),
                    format!("max_parallel_requests of 1 key (3): {NOTHING}"),
                    format!("rpm_limit of 1 key (1): {NOTHING}"),
                    format!("tpm_limit of 1 key (2): {NOTHING}"),
                ]
            );
        }
        let csv = format!("token,rpm_limit,max_budget\n{HASH},0,0\n{HASH},,\n");
        let Foreign { keys, report } = foreign(&csv, &with_policies());
        assert_eq!((keys[0].fields.disabled, keys[1].fields.disabled), (true, false));
        assert_eq!(report.lines().count(), 2);
    }

    #[test]
    fn an_input_without_rows_is_a_mistake_that_repeats_nothing() {
        for text in ["{\"keys\": \"hunter2\"}", "[\"hunter2\"]", "{hunter2", "hunter2\n\"a"] {
            let error = rows::read(text).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}

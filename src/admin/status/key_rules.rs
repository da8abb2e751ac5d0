//! What is wrong with the keys of tokens, with the API keys in a file or a store, and with the files of
//! users, classes and prices.

use tollgate_core::store::keys::KeysAway;
use tollgate_core::time::Span;

use super::rule::{Bound, Rule};
use super::window::Counted;

const QUARTER_OF_AN_HOUR: Span = Span::from_secs(900);

/// The set of keys for tokens cannot be fetched.
pub const KEY_SET_NOT_FETCHED: Rule = Rule {
    code: "key_set_not_fetched",
    alert: Some("TollgateKeySetNotFetched"),
    over: None,
    bound: Bound::Equals(0.0),
    values: |it| it.window.gauges.fetched_key_sets.clone(),
    text: |_, set, _| {
        format!(
            "the key set {set} cannot be fetched: the previous one stays in use, or no token \
             is valid if there was none"
        )
    },
    advice: "the log has the cause; tokens that a new key has signed are not valid until then",
};

/// The file of the API keys has mistakes.
pub const KEY_FILE_BROKEN: Rule = Rule {
    code: "key_file_broken",
    alert: Some("TollgateKeyFileBroken"),
    over: None,
    bound: Bound::Equals(0.0),
    values: |it| it.window.gauges.key_files.clone(),
    text: |_, file, _| {
        format!("the file of the API keys {file} has mistakes: the keys that were read before stay")
    },
    advice: "the log has the mistakes: correct the file; it is then read again by itself",
};

/// The store of the API keys cannot be read.
pub const KEY_STORE_AWAY: Rule = Rule {
    code: "key_store_away",
    alert: Some("TollgateKeyStoreAway"),
    over: None,
    bound: Bound::Above(0.0),
    values: |it| it.window.gauges.key_store_away.clone(),
    text: |_, cause, _| {
        let away = KeysAway::ALL.into_iter().find(|it| it.code() == cause);
        let told = |it: KeysAway| format!("{} (cause: {cause}); {}", it.text(), it.remedy());
        away.map_or_else(String::new, told)
    },
    advice: "the text and the log have the cause and the remedy",
};

/// Keys are both in the file and in the store.
pub const KEY_IN_FILE_AND_STORE: Rule = Rule {
    code: "key_in_file_and_store",
    alert: Some("TollgateKeyInFileAndStore"),
    over: None,
    bound: Bound::Above(0.0),
    values: |it| vec![(String::new(), it.window.gauges.duplicate_keys)],
    text: |_, _, keys| {
        format!(
            "the ids of {keys} API keys are both in the file and in the store: those of the file \
             hold, and changes of the others have no effect"
        )
    },
    advice: "the log names them: remove them from the file, or revoke them in the store",
};

/// Requests are refused because the limits of their API keys are not in the units of a policy.
pub const KEY_LIMIT_UNFIT: Rule = Rule {
    code: "key_limit_unfit",
    alert: Some("TollgateKeyLimitUnfit"),
    over: Some(QUARTER_OF_AN_HOUR),
    bound: Bound::Above(0.0),
    values: |it| it.window.has_grown(Counted::UnfitLimit, QUARTER_OF_AN_HOUR),
    text: |_, policy, _| {
        format!(
            "requests were refused, because the limits of their API keys or teams cannot be counted \
             under the policy {policy:?}: one is money and the other is not, or the currency is \
             another one"
        )
    },
    advice: "the log names the keys and the causes: set their limits again with tollgate key set or \
             tollgate team set",
};

/// Limits of single keys are not applied, because their policies cannot count them.
pub const LIMITS_IGNORED: Rule = Rule {
    code: "limits_ignored",
    alert: Some("TollgateLimitsIgnored"),
    over: Some(QUARTER_OF_AN_HOUR),
    bound: Bound::Above(0.0),
    values: |it| it.window.has_grown(Counted::IgnoredLimit, QUARTER_OF_AN_HOUR),
    text: |_, policy, _| {
        format!(
            "the policy {policy:?} cannot count overrides, or limits of API keys or teams, and \
             judges their clients by its other limits"
        )
    },
    advice: "the log has the cause: set the limits again, or unset them, with tollgate override, \
             tollgate key or tollgate team",
};

/// The file of users and passwords has mistakes.
pub const PASSWORD_FILE_BROKEN: Rule = Rule {
    code: "password_file_broken",
    alert: Some("TollgatePasswordFileBroken"),
    over: None,
    bound: Bound::Equals(0.0),
    values: |it| it.window.gauges.password_files.clone(),
    text: |_, file, _| {
        format!("the file of passwords {file} has mistakes: the users that were read before stay")
    },
    advice: "the log has the mistakes: correct the file; it is then read again by itself",
};

/// The file of the classes of clients has mistakes.
pub const CLASS_FILE_BROKEN: Rule = Rule {
    code: "class_file_broken",
    alert: Some("TollgateClassFileBroken"),
    over: None,
    bound: Bound::Equals(0.0),
    values: |it| it.window.gauges.class_files.clone(),
    text: |_, file, _| {
        format!(
            "the file of the classes {file} has mistakes: the classes that were read before stay"
        )
    },
    advice: "the log has the mistakes: correct the file; it is then read again by itself",
};

/// The file of the prices has mistakes.
pub const PRICE_FILE_BROKEN: Rule = Rule {
    code: "price_file_broken",
    alert: Some("TollgatePriceFileBroken"),
    over: None,
    bound: Bound::Equals(0.0),
    values: |it| it.window.gauges.price_files.clone(),
    text: |_, file, _| {
        format!("the file of the prices {file} has mistakes: the prices that were read before stay")
    },
    advice: "the log has the mistakes: correct the file; it is then read again by itself",
};

/// Keys of the set for tokens cannot be used.
pub const KEY_LEFT_OUT: Rule = Rule {
    code: "key_left_out",
    alert: Some("TollgateKeyLeftOut"),
    over: None,
    bound: Bound::Above(0.0),
    values: |it| it.window.gauges.keys_left_out.clone(),
    text: |_, set, keys| {
        format!(
            "the key set {set} has keys that cannot be used ({keys}): no token is valid that \
             one of them has signed"
        )
    },
    advice: "the log names them: the issuer must publish each key in a form that can verify",
};

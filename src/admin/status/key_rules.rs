//! What is wrong with the keys of tokens, and with the files of the API keys and of the classes.

use super::rule::{Bound, Rule};

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

//! The forms of values as regular expressions, for the JSON Schema. An editor that reads the schema
//! finds a mistake while it is written.
//!
//! Each form matches all texts that the program accepts, and most others it does not match: the
//! program is the one that decides. The expressions are in the common part of ECMA-262, which JSON
//! Schema uses, and of the crate `regex`.

use tollgate_core::policy::KEY_FORMS;

/// Expressions that others contain. Only literals can be joined when the program is compiled.
macro_rules! part {
    (number) => {
        "[0-9][0-9_]*"
    };
    (unit) => {
        "(?:ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)"
    };
    (period) => {
        concat!("(?:", part!(number), part!(unit), ")+")
    };
    (count) => {
        concat!("\\s*", part!(number), "[kM]?\\s*")
    };
    (money) => {
        concat!("\\s*", part!(number), "(?:\\.[0-9]+)? \\s*[A-Za-z]{1,8}\\s*")
    };
    (rate) => {
        concat!(part!(count), "/", part!(window))
    };
    (window) => {
        concat!("\\s*(?:", part!(unit), "|months?|", part!(period), ")\\s*")
    };
}

pub const PERIOD: &str = part!(period);
pub const RATE: &str = part!(rate);
pub const LIMIT: &str = concat!(part!(rate), "|", part!(count));
pub const ALLOWANCE: &str = concat!(
    "unlimited|",
    part!(rate),
    "|",
    part!(count),
    "|",
    part!(money),
    "(?:/",
    part!(window),
    ")?"
);
pub const PRICE: &str = "[0-9][0-9_]*(?:\\.[0-9]+)?";
pub const CURRENCY: &str = "[A-Za-z]{1,8}";
pub const SIZE: &str = concat!(part!(number), "\\s*(?:[kKMG]?B|[KMG]iB)?");
pub const PERCENT: &str = concat!(part!(number), "\\s*%");
pub const SHARE: &str = "[0-9]+(?:\\.[0-9]{1,4})?\\s*%";
pub const DATE: &str = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
pub const METHOD: &str = "[!#$%&'*+.^_`|~0-9A-Z-]+";
pub const FIELD_NAME: &str = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
pub const PATH: &str = "/[\\s\\S]*";
pub const POINTER: &str = "(?:/[\\s\\S]*)?";
pub const PLACE: &str = "[A-Z]{2}(?:-[A-Z0-9]{1,3})?|AS[0-9]+";
pub const ENDPOINT: &str = "(?:https?|h2c)://[\\s\\S]+|unix:[\\s\\S]+|builtin:echo";
pub const ORIGIN: &str = "\\*|null|[A-Za-z][A-Za-z0-9+.-]*://[\\s\\S]+";
pub const GRPC_URL: &str = "(?:h2c|https)://[\\s\\S]+";
pub const QUESTION_URL: &str = "https?://[\\s\\S]+";
pub const RETRY: &str = "connect|reset|502|503|504";
pub const FALLBACK: &str = "connect|reset|5[0-9]{2}";
pub const MEDIA_TYPE: &str =
    "[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/([A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*|\\*)";
pub const LEVEL: &str = "off|error|warn|info|debug|trace";
pub const WORKERS: &str = "auto|\\+?[0-9]+";

/// The form of a key of one word.
pub fn key() -> String {
    let is_name = |it: &str| it.chars().all(|it| it.is_ascii_uppercase());
    let form = |form: &str| match form.split_once(':') {
        Some((kind, name)) if is_name(name) => format!("{kind}:[\\s\\S]+"),
        _ => form.to_owned(),
    };
    KEY_FORMS.map(form).join("|")
}

/// The whole pattern of a form. A value may contain references to variables, which are replaced
/// before the program reads it.
pub fn pattern(form: &str) -> String {
    format!("^(?:[\\s\\S]*\\$\\{{[\\s\\S]*|{form})$")
}

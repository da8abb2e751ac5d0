//! The forms of keys of one word. The parser, its messages, the schema of the configuration and the
//! documentation have this one list.

/// The keys of one word, in the order in which messages list them. `NAME`, `CLAIM`, `POINTER` and
/// `FIELD` stand for the part that the configuration chooses.
pub const KEY_FORMS: [&str; 25] = [
    "ip",
    "api_key",
    "api_key:NAME",
    "user",
    "cookie:NAME",
    "header:NAME",
    "query:NAME",
    "jwt:CLAIM",
    "json:POINTER",
    "form:NAME",
    "mcp:method",
    "mcp:tool",
    "tls:subject",
    "authorizer:FIELD",
    "param:NAME",
    "path",
    "method",
    "host",
    "route",
    "country",
    "region",
    "asn",
    "class",
    "agent",
    "global",
];

/// The forms as a list in a sentence. `conjunction` is before the last one.
pub fn key_forms(conjunction: &str) -> String {
    let [first @ .., last] = &KEY_FORMS;
    format!("{} {conjunction} {last}", first.join(", "))
}

/// Whether a key can begin with `kind` and a colon.
pub(super) fn takes_name(kind: &str) -> bool {
    KEY_FORMS.iter().any(|form| form.split_once(':').is_some_and(|(before, _)| before == kind))
}

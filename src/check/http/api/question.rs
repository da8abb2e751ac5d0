//! What callers write. Unknown fields are mistakes: a field with a typing error must not be
//! ignored.

use std::net::IpAddr;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tollgate_core::meter::Usage;
use tollgate_core::time::Span;
use tollgate_limiter::Limit;

use super::key::{AskedKey, KeyText};
use super::problem::Problem;
use crate::engine::Fields;
use crate::message::json::{self, object, objects};

/// The most questions of a call.
pub const MAX_CHECKS: usize = 1000;
/// The most questions that are decided together, and the most policies of one question.
pub const MAX_TOGETHER: usize = tollgate_core::decision::MAX_POLICIES;

/// The body of `/v1/check`: one question, or several in `checks`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// The policy that decides.
    pub policy: Option<String>,
    /// Several of them.
    pub policies: Option<Vec<String>>,
    /// The route whose policies decide.
    pub route: Option<String>,
    /// The client.
    pub key: Option<AskedKey>,
    /// The text of the client's API key.
    pub api_key: Option<KeyText>,
    /// The address that has sent the API key, if there is no request.
    pub ip: Option<IpAddr>,
    /// The request whose client is meant.
    #[serde(deserialize_with = "object")]
    pub request: Option<AskedRequest>,
    /// The name of a limit that the question states.
    pub name: Option<String>,
    /// That limit, like `10/m`.
    pub limit: Option<String>,
    /// The units. Default: one for a key, the policy's cost for a request.
    pub cost: Option<u64>,
    /// Counts nothing.
    pub peek: bool,
    /// Asks for a lease.
    pub lease: bool,
    /// How long the lease lasts, like `90s`.
    pub ttl: Option<String>,
    /// Charges at most the whole limit.
    pub estimate: bool,
    /// Several questions, instead of one.
    #[serde(deserialize_with = "objects")]
    pub checks: Option<Vec<Self>>,
    /// Whether all of them are admitted, or none.
    pub together: bool,
}

/// A request, as its proxy or service has received it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedRequest {
    #[serde(default = "get")]
    pub method: String,
    pub host: String,
    /// The path with the query.
    #[serde(default = "root")]
    pub path: String,
    #[serde(default)]
    pub headers: Fields,
    /// The address of the client.
    pub ip: IpAddr,
    /// The body. If it is absent, keys that are in the body are missing.
    pub body: Option<String>,
}

impl Question {
    /// Whether it counts nothing.
    pub fn counts_nothing(&self) -> bool {
        self.peek || self.cost == Some(0)
    }
}

fn get() -> String {
    "GET".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

/// The body of `/v1/settle`, `/v1/release` and `/v1/renew`: one lease, or several in `leases`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeaseCall {
    pub lease: Option<String>,
    /// What the request has cost. Only for `/v1/settle`.
    pub actual: Option<u64>,
    /// The tokens that the request has used, instead of `actual`. Only for `/v1/settle`.
    #[serde(deserialize_with = "object")]
    pub usage: Option<UsedTokens>,
    /// The model that has used them.
    pub model: Option<String>,
    /// How long the lease lasts from now on. Only for `/v1/renew`.
    pub ttl: Option<String>,
    #[serde(deserialize_with = "objects")]
    pub leases: Option<Vec<Self>>,
}

/// The tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UsedTokens {
    /// The input that was in no cache.
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
}

impl From<UsedTokens> for Usage {
    fn from(UsedTokens { input, cache_read, cache_write, output }: UsedTokens) -> Self {
        Self { input, cache_read, cache_write, output }
    }
}

/// Reads a body.
///
/// # Errors
/// If it is not JSON of this form. The problem points to the place.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    json::read(body).map_err(|json::Mistake { pointer, detail }| Problem {
        pointer: Some(pointer),
        ..Problem::bad_request(detail)
    })
}

/// Several calls in one, or one. `inner` are those of the list. `others` says whether the outer
/// one has another field.
///
/// # Errors
/// If there is none, if there are more than `max`, or if one contains others.
pub fn parts<T>(
    call: T,
    list: &'static str,
    max: usize,
    inner: impl Fn(&mut T) -> Option<Vec<T>>,
    is_alone: impl FnOnce(&T) -> bool,
) -> Result<(Vec<T>, bool), Problem> {
    let mut call = call;
    let Some(mut calls) = inner(&mut call) else { return Ok((vec![call], false)) };
    if !is_alone(&call) {
        return Err(Problem::bad_request(format!("beside \"{list}\" there is another field")));
    }
    if calls.is_empty() || calls.len() > max {
        let detail = format!("\"{list}\" has 1 to {max} elements");
        return Err(Problem::bad_request(detail).at(&format!("/{list}")));
    }
    match calls.iter_mut().position(|call| inner(call).is_some()) {
        None => Ok((calls, true)),
        Some(index) => {
            let detail = format!("an element of \"{list}\" has no \"{list}\"");
            Err(Problem::bad_request(detail).at(&format!("/{list}/{index}/{list}")))
        }
    }
}

/// A time as a question writes it: a number with a unit, like `90s`.
///
/// # Errors
/// If it is none, or not between a second and `max`.
pub fn ttl(text: &str, max: Span) -> Result<Span, Problem> {
    let wrong = |detail: String| Problem::bad_request(detail).at("/ttl");
    // The window of a limit has the same form.
    let limit: Option<Limit> = format!("1/{text}").parse().ok();
    let is_time = text.starts_with(|first: char| first.is_ascii_digit());
    let window = limit.filter(|_| is_time).and_then(|limit| limit.window()).map(Span::from);
    let ttl = window.ok_or_else(|| {
        wrong(format!("{text:?} is not a time: write a number and a unit, like 90s"))
    })?;
    if ttl < Span::SECOND || ttl > max {
        return Err(wrong(format!("a lease lasts from 1s to {max} (check.http.leases.max_ttl)")));
    }
    Ok(ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(body: &str) -> (String, String) {
        let problem = read::<Question>(body.as_bytes()).expect_err(body);
        (problem.pointer.expect("it has one"), problem.detail)
    }

    #[test]
    fn a_mistake_is_reported_with_its_place() {
        for (body, pointer, part) in [
            (r#"{"policy": 5}"#, "/policy", "expected a string"),
            (r#"{"polcy": "a"}"#, "/polcy", "unknown field `polcy`"),
            (r#"{"cost": -1}"#, "/cost", "expected u64"),
            (r#"{"cost": 1.5, "peek": true}"#, "/cost", "expected u64"),
            (r#"{"cost": "1"}"#, "/cost", "expected u64"),
            (r#"{"api_key": 5}"#, "/api_key", "expected a string"),
            (r#"{"ip": "here"}"#, "/ip", "invalid IP address"),
            (r#"{"policy": ["a"]}"#, "/policy", "expected a string"),
            (r#"{"policies": ["a", 1]}"#, "/policies/1", "expected a string"),
            (r#"{"policies": {"a": 1}}"#, "/policies", "expected a sequence"),
            (r#"{"request": {"metod": 1}}"#, "/request/metod", "unknown field"),
            (r#"{"request": {"host": "a", "path": "/"}}"#, "/request", "missing field `ip`"),
            (r#"{"request": {"ip": "1.2.3.4"}}"#, "/request", "missing field `host`"),
            (r#"{"request": {"ip": "here"}}"#, "/request/ip", "invalid IP address"),
            (
                "{\"checks\": [\n{\"policy\": \"a\"},\n{\"policy\": 1}]}",
                "/checks/1/policy",
                "string",
            ),
            (r#"{"policy": "a", "policy": "b"}"#, "/policy", "duplicate field"),
            (
                r#"{"request": {"host": "a", "ip": "::1", "headers": {"a": "1", "a": "2"}}}"#,
                "/request/headers/a",
                "duplicate field",
            ),
            (r#"{"policy": "a""#, "/policy", "EOF"),
            (r#"{"policy": "a"} x"#, "", "trailing characters"),
            ("[]", "", "expected an object"),
            (r#"{"checks": [[]]}"#, "/checks/0", "expected an object"),
            (r#"{"request": ["GET"]}"#, "/request", "expected an object"),
            ("\"a\"", "", "expected an object"),
            ("", "", "EOF"),
        ] {
            let (found, detail) = mistake(body);
            assert_eq!(found, pointer, "{body}: {detail}");
            assert!(detail.contains(part), "{body}: {detail}");
        }
    }

    #[test]
    fn a_body_has_one_question_or_several() {
        let parts = |body: &str| {
            let question = read::<Question>(body.as_bytes()).expect("it is one");
            let is_alone =
                |it: &Question| *it == Question { together: it.together, ..Question::default() };
            let found = parts(question, "checks", 2, |it| it.checks.take(), is_alone);
            found.map(|(list, is_batch)| (list.len(), is_batch)).map_err(|it| it.pointer)
        };
        assert_eq!(parts(r#"{"policy": "a"}"#), Ok((1, false)));
        assert_eq!(parts(r#"{"checks": [{}, {}], "together": true}"#), Ok((2, true)));
        assert_eq!(parts(r#"{"checks": []}"#), Err(Some("/checks".to_owned())));
        assert_eq!(parts(r#"{"checks": [{}, {}, {}]}"#), Err(Some("/checks".to_owned())));
        assert_eq!(parts(r#"{"checks": [{}], "cost": 1}"#), Err(None));
        let nested = parts(r#"{"checks": [{}, {"checks": []}]}"#);
        assert_eq!(nested, Err(Some("/checks/1/checks".to_owned())));
    }

    #[test]
    fn a_time_has_a_unit_and_bounds() {
        let hour = Span::from_secs(3600);
        assert_eq!(ttl("90s", hour), Ok(Span::from_secs(90)));
        assert_eq!(ttl("1m30s", hour), Ok(Span::from_secs(90)));
        assert_eq!(ttl("1h", hour), Ok(hour));
        for text in ["", "s", "90", "0s", "999ms", "61m", "-1s", "minute", "1/s", "1 fortnight"] {
            let problem = ttl(text, hour).expect_err(text);
            assert_eq!(problem.pointer.as_deref(), Some("/ttl"), "{text}");
        }
    }
}

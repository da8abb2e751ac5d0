//! What callers write. Unknown fields are mistakes: a field with a typing error must not be
//! ignored.

use std::net::IpAddr;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tollgate_core::meter::Usage;
use tollgate_core::time::Span;
use tollgate_limiter::Limit;

use super::key::{AskedKey, KeyText};
use super::problem::Problem;
use crate::engine::Fields;
use crate::message::json::{self, First, Objects, object};

/// The most questions of a call.
pub const MAX_CHECKS: usize = 1000;
/// The most questions that are decided together, and the most policies of one question.
pub const MAX_TOGETHER: usize = tollgate_core::decision::MAX_POLICIES;

/// The body of `/v1/check`: one question, or several in `checks`.
pub type CheckCall = Question<Objects<MAX_CHECKS, Question>>;

/// A question. `L` is its list of further ones, which is not read if the question is itself part
/// of a list: no list contains another one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question<L = IgnoredAny> {
    /// The policy that decides.
    pub policy: Option<String>,
    /// Several of them.
    pub policies: Option<First<MAX_TOGETHER, String>>,
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
    pub checks: Option<L>,
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

impl Call for CheckCall {
    type Part = Question;
    const LIST: &'static str = "checks";

    fn take_list(&mut self) -> Option<Vec<Question>> {
        self.checks.take().map(|Objects(list)| list)
    }

    fn is_empty(&self) -> bool {
        *self == Self { together: self.together, ..Self::default() }
    }

    fn alone(self) -> Question {
        Question {
            policy: self.policy,
            policies: self.policies,
            route: self.route,
            key: self.key,
            api_key: self.api_key,
            ip: self.ip,
            request: self.request,
            name: self.name,
            limit: self.limit,
            cost: self.cost,
            peek: self.peek,
            lease: self.lease,
            ttl: self.ttl,
            estimate: self.estimate,
            checks: None,
            together: self.together,
        }
    }

    fn has_list(part: &Question) -> bool {
        part.checks.is_some()
    }
}

fn get() -> String {
    "GET".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

/// The body of `/v1/settle`, `/v1/release` and `/v1/renew`: one lease, or several in `leases`.
pub type LeasesCall = LeaseCall<Objects<MAX_CHECKS, LeaseCall>>;

/// What is asked for a lease. `L` is its list of further ones, as for a [`Question`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeaseCall<L = IgnoredAny> {
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
    pub leases: Option<L>,
}

impl Call for LeasesCall {
    type Part = LeaseCall;
    const LIST: &'static str = "leases";

    fn take_list(&mut self) -> Option<Vec<LeaseCall>> {
        self.leases.take().map(|Objects(list)| list)
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn alone(self) -> LeaseCall {
        let Self { lease, actual, usage, model, ttl, leases: _ } = self;
        LeaseCall { lease, actual, usage, model, ttl, leases: None }
    }

    fn has_list(part: &LeaseCall) -> bool {
        part.leases.is_some()
    }
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

/// A body that asks for one thing, or for several in a list.
pub trait Call: Sized {
    /// One of them.
    type Part;
    /// The name of the list.
    const LIST: &'static str;

    /// Takes the list out.
    fn take_list(&mut self) -> Option<Vec<Self::Part>>;
    /// Whether it has no field that may not be beside the list.
    fn is_empty(&self) -> bool;
    /// The only one, without a list.
    fn alone(self) -> Self::Part;
    /// Whether an element of the list has a list of its own.
    fn has_list(part: &Self::Part) -> bool;
}

/// The parts of a call.
#[derive(Debug)]
pub struct Parts<T> {
    pub all: Vec<T>,
    /// Whether they were in a list.
    pub is_batch: bool,
}

/// Several calls in one, or one.
///
/// # Errors
/// If there is none, if there are more than `max`, or if one contains others.
pub fn parts<C: Call>(mut call: C, max: usize) -> Result<Parts<C::Part>, Problem> {
    let list = C::LIST;
    let Some(all) = call.take_list() else {
        return Ok(Parts { all: vec![call.alone()], is_batch: false });
    };
    if !call.is_empty() {
        return Err(Problem::bad_request(format!("beside \"{list}\" there is another field")));
    }
    if all.is_empty() || all.len() > max {
        let detail = format!("\"{list}\" has 1 to {max} elements");
        return Err(Problem::bad_request(detail).at(&format!("/{list}")));
    }
    match all.iter().position(C::has_list) {
        None => Ok(Parts { all, is_batch: true }),
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
        let problem = read::<CheckCall>(body.as_bytes()).expect_err(body);
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
            (
                r#"{"request": {"host": "a", "headers": {"b": "1", "c": ["q", "r"]}}}"#,
                "/request/headers/c",
                "invalid type: sequence, expected a string",
            ),
            (
                r#"{"request": {"host": "a", "headers": 5}}"#,
                "/request/headers",
                "expected an object of names and texts, or a list of pairs",
            ),
            (
                r#"{"request": {"host": "a", "headers": [["b", "1"], ["c"]]}}"#,
                "/request/headers/1",
                "invalid length 1, expected a list of a name and a text",
            ),
            (
                r#"{"request": {"host": "a", "headers": [["b", "1", "2"]]}}"#,
                "/request/headers/0",
                "invalid length 3, expected a list of a name and a text",
            ),
            (
                r#"{"request": {"host": "a", "headers": [["b", 1]]}}"#,
                "/request/headers/0/1",
                "expected a string",
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
    fn fields_are_an_object_or_pairs_of_which_some_have_one_name() {
        let fields = |headers: &str| {
            let body =
                format!(r#"{{"request": {{"host": "a", "ip": "::1", "headers": {headers}}}}}"#);
            let call = read::<CheckCall>(body.as_bytes()).expect("it is one");
            call.request.expect("it has one").headers
        };
        let pair = |value: &str| ("b".to_owned(), value.to_owned());
        assert_eq!(fields(r#"{"b": "1"}"#), Fields::Map([pair("1")].into()));
        let list = Fields::List(vec![pair("1"), pair("2")]);
        assert_eq!(fields(r#"[["b", "1"], ["b", "2"]]"#), list);
    }

    #[test]
    fn a_body_has_one_question_or_several() {
        let parts = |body: &str| {
            let found = parts(read::<CheckCall>(body.as_bytes()).expect("it is one"), 2);
            found.map(|it| (it.all.len(), it.is_batch)).map_err(|it| it.pointer)
        };
        assert_eq!(parts(r#"{"policy": "a"}"#), Ok((1, false)));
        assert_eq!(parts(r#"{"checks": [{}, {}], "together": true}"#), Ok((2, true)));
        assert_eq!(parts(r#"{"checks": []}"#), Err(Some("/checks".to_owned())));
        assert_eq!(parts(r#"{"checks": [{}, {}, {}]}"#), Err(Some("/checks".to_owned())));
        assert_eq!(parts(r#"{"checks": [{}], "cost": 1}"#), Err(None));
        let nested = parts(r#"{"checks": [{}, {"checks": []}]}"#);
        assert_eq!(nested, Err(Some("/checks/1/checks".to_owned())));
    }

    /// All elements of a list were once read before its bound was checked.
    #[test]
    fn of_a_list_that_is_too_long_a_part_is_read() {
        let list = |element: &str| vec![element; 50_000].join(",");
        let checks = read::<CheckCall>(format!("{{\"checks\": [{}]}}", list("{}")).as_bytes());
        let Objects(checks) = checks.expect("it is one").checks.expect("it has some");
        let leases = read::<LeasesCall>(format!("{{\"leases\": [{}]}}", list("{}")).as_bytes());
        let Objects(leases) = leases.expect("it is one").leases.expect("it has some");
        let names = read::<CheckCall>(format!("{{\"policies\": [{}]}}", list("\"a\"")).as_bytes());
        let First(names) = names.expect("it is one").policies.expect("it has some");
        assert_eq!([checks.len(), leases.len(), names.len()], [1001, 1001, 17]);
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

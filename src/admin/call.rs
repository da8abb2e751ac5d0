//! The calls of the admin API: their methods, paths and roles. This is the only list.

use http::header::IF_MATCH;
use http::{HeaderMap, Method, StatusCode};

use super::Role;
use super::parameter::{self, PAGE, Parameter};
use super::problem::Problem;
use super::target::{decoded, is_at, pairs};

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Alive,
    Ready,
    Metrics,
    Status,
    Config,
    PutConfig,
    CheckConfig,
    Reload,
    Policies,
    Policy,
    PatchPolicy,
    UnpatchPolicy,
    SetCandidate,
    UnsetCandidate,
    Nodes,
    Key,
    ResetKey,
    Override,
    SetOverride,
    UnsetOverride,
    Upstreams,
    Top,
    Explain,
    Refusals,
    Refusal,
    Audit,
    History,
    Events,
    OpenApi,
    Page,
    PageFile,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallSpec {
    pub(super) action: Action,
    pub(super) method: &'static str,
    /// Names in braces stand for one segment.
    pub(super) path: &'static str,
    /// What the caller must have. None: no credential.
    pub(super) role: Option<Role>,
    /// The parameters that the query may have.
    pub(super) query: &'static [Parameter],
    /// The types of the body. None: a body is ignored.
    pub(super) body: Option<&'static [&'static str]>,
}

const JSON: &[&str] = &["application/json"];
const JSON_OR_YAML: &[&str] = &["application/json", "application/yaml"];

/// All calls.
pub(super) const CALLS: [CallSpec; 31] = [
    call(Action::Alive, "GET", "/healthz", None),
    call(Action::Ready, "GET", "/readyz", None),
    call(Action::Metrics, "GET", "/metrics", Some(Role::Metrics)),
    call(Action::Status, "GET", "/v1/status", Some(Role::Read)),
    CallSpec {
        query: parameter::CONFIG,
        ..call(Action::Config, "GET", "/v1/config", Some(Role::Read))
    },
    CallSpec {
        query: parameter::PUT_CONFIG,
        body: Some(JSON_OR_YAML),
        ..call(Action::PutConfig, "PUT", "/v1/config", Some(Role::Operate))
    },
    // It reads files and variables that a configuration may name, and a mistake may tell
    // something of their contents: a reader could find the tokens of operators by it.
    CallSpec {
        body: Some(JSON_OR_YAML),
        ..call(Action::CheckConfig, "POST", "/v1/config/check", Some(Role::Operate))
    },
    call(Action::Reload, "POST", "/v1/reload", Some(Role::Operate)),
    CallSpec {
        query: parameter::POLICIES,
        ..call(Action::Policies, "GET", "/v1/policies", Some(Role::Read))
    },
    CallSpec {
        query: parameter::ONE_POLICY,
        ..call(Action::Policy, "GET", "/v1/policies/{policy}", Some(Role::Read))
    },
    CallSpec {
        body: Some(JSON),
        ..call(Action::PatchPolicy, "PATCH", "/v1/policies/{policy}", Some(Role::Operate))
    },
    call(Action::UnpatchPolicy, "DELETE", "/v1/policies/{policy}/patch", Some(Role::Operate)),
    CallSpec {
        body: Some(JSON),
        ..call(Action::SetCandidate, "PUT", "/v1/policies/{policy}/candidate", Some(Role::Operate))
    },
    call(Action::UnsetCandidate, "DELETE", "/v1/policies/{policy}/candidate", Some(Role::Operate)),
    CallSpec { query: PAGE, ..call(Action::Nodes, "GET", "/v1/nodes", Some(Role::Read)) },
    CallSpec {
        query: parameter::KEY,
        ..call(Action::Key, "GET", "/v1/policies/{policy}/keys/{key}", Some(Role::Read))
    },
    call(Action::ResetKey, "DELETE", "/v1/policies/{policy}/keys/{key}", Some(Role::Operate)),
    call(Action::Override, "GET", "/v1/policies/{policy}/overrides/{key}", Some(Role::Read)),
    CallSpec {
        body: Some(JSON),
        ..call(
            Action::SetOverride,
            "PUT",
            "/v1/policies/{policy}/overrides/{key}",
            Some(Role::Operate),
        )
    },
    call(
        Action::UnsetOverride,
        "DELETE",
        "/v1/policies/{policy}/overrides/{key}",
        Some(Role::Operate),
    ),
    CallSpec { query: PAGE, ..call(Action::Upstreams, "GET", "/v1/upstreams", Some(Role::Read)) },
    CallSpec { query: parameter::TOP, ..call(Action::Top, "GET", "/v1/top", Some(Role::Read)) },
    CallSpec { body: Some(JSON), ..call(Action::Explain, "POST", "/v1/explain", Some(Role::Read)) },
    CallSpec {
        query: parameter::REFUSALS,
        ..call(Action::Refusals, "GET", "/v1/refusals", Some(Role::Read))
    },
    CallSpec {
        query: parameter::REFUSAL,
        ..call(Action::Refusal, "GET", "/v1/refusals/{request-id}", Some(Role::Read))
    },
    CallSpec { query: PAGE, ..call(Action::Audit, "GET", "/v1/audit", Some(Role::Read)) },
    CallSpec {
        query: parameter::HISTORY,
        ..call(Action::History, "GET", "/v1/history", Some(Role::Read))
    },
    CallSpec {
        query: parameter::EVENTS,
        ..call(Action::Events, "GET", "/v1/events", Some(Role::Read))
    },
    call(Action::OpenApi, "GET", "/openapi.json", None),
    call(Action::Page, "GET", "/", None),
    call(Action::PageFile, "GET", "/page/{file}", None),
];

const fn call(
    action: Action,
    method: &'static str,
    path: &'static str,
    role: Option<Role>,
) -> CallSpec {
    CallSpec { action, method, path, role, query: &[], body: None }
}

impl CallSpec {
    /// Whether it is a part of the program, which contains nothing of this gateway.
    pub(super) const fn is_public(&self) -> bool {
        matches!(self.action, Action::OpenApi | Action::Page | Action::PageFile)
    }
}

/// A call with the values of its path and its query.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) spec: &'static CallSpec,
    /// The values of the names in braces.
    values: Vec<String>,
    query: Vec<(String, String)>,
    /// The field `If-Match`. Several lines are one list.
    pub(super) if_match: Option<String>,
    /// The name of the credential.
    pub(super) actor: String,
}

impl Call {
    /// The name in metrics of a call of this method at this path: never a name that only a
    /// client knows.
    pub(super) fn name(method: &Method, path: &str) -> String {
        let known = Self::spec(method, path);
        known.map_or_else(|| "unknown".to_owned(), |it| format!("{} {}", it.method, it.path))
    }

    /// Which call has this method and path, whatever its parameters are.
    pub(super) fn spec(method: &Method, path: &str) -> Option<&'static CallSpec> {
        let method = listed(method);
        CALLS.iter().find(|spec| spec.method == method && is_at(spec.path, path))
    }

    /// The call of this method at this path.
    ///
    /// # Errors
    /// 404 or 405 if there is none, and 400 if it cannot be read.
    pub(super) fn parse(method: &Method, path: &str, query: Option<&str>) -> Result<Self, Problem> {
        let Some(spec) = Self::spec(method, path) else {
            let at_path: Vec<&'static CallSpec> =
                CALLS.iter().filter(|spec| is_at(spec.path, path)).collect();
            return Err(match &at_path[..] {
                [] => Problem::not_found("there is no such call; see docs/admin.md"),
                _ => {
                    let allow: Vec<&str> = at_path.iter().map(|spec| spec.method).collect();
                    let allow = allow.join(", ");
                    let detail = format!("this path has other methods: {allow}");
                    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail);
                    Problem { allow: Some(allow), ..problem }
                }
            });
        };
        let segments = spec.path.split('/').zip(path.split('/'));
        let values = segments.filter(|(name, _)| name.starts_with('{')).map(|(_, it)| decoded(it));
        let call = Self {
            spec,
            values: values.collect::<Result<_, _>>()?,
            query: pairs(query)?,
            if_match: None,
            actor: String::new(),
        };
        for (index, (name, value)) in call.query.iter().enumerate() {
            let Some(parameter) = spec.query.iter().find(|it| it.name == name) else {
                let known: Vec<&str> = spec.query.iter().map(|it| it.name).collect();
                let known = known.join(", ");
                let known = if known.is_empty() { "no parameters" } else { &known };
                let detail = format!("there is no parameter {name:?}; this call has {known}");
                return Err(Problem::bad_request(detail));
            };
            if call.query[..index].iter().any(|(before, _)| before == name) {
                return Err(Problem::bad_request(format!("{name} is given more than once")));
            }
            parameter.check(value)?;
        }
        Ok(call)
    }

    /// The same call with its fields, by this actor.
    pub(super) fn by(self, actor: &str, headers: &HeaderMap) -> Self {
        let lines = headers.get_all(IF_MATCH).iter();
        let lines: Vec<&str> = lines.map(|line| line.to_str().unwrap_or_default()).collect();
        let if_match = (!lines.is_empty()).then(|| lines.join(","));
        Self { if_match, actor: actor.to_owned(), ..self }
    }

    /// The values of `{policy}` and `{key}`; empty where the path has none.
    pub(super) fn value(&self, index: usize) -> &str {
        self.values.get(index).map_or("", String::as_str)
    }

    /// A parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// A number of the query, or the one that holds if none is given.
    pub(super) fn number(&self, name: &str) -> usize {
        let parameter = self.spec.query.iter().find(|it| it.name == name);
        parameter.map_or(0, |it| it.number(self.parameter(name)))
    }

    /// The words of a list in the query, or those that hold if none is given.
    pub(super) fn words(&self, name: &str) -> Vec<&str> {
        let parameter = self.spec.query.iter().find(|it| it.name == name);
        parameter.map_or_else(Vec::new, |it| it.words(self.parameter(name)))
    }

    /// What the caller must have. None: no credential.
    pub(super) fn role(&self) -> Option<Role> {
        if self.reveals() { Some(Role::Operate) } else { self.spec.role }
    }

    /// Whether it shows whole keys.
    pub(super) fn reveals(&self) -> bool {
        self.parameter("reveal") == Some("true")
    }

    /// Whether it is recorded: it changes something, or shows whole keys.
    pub(super) fn is_recorded(&self) -> bool {
        self.role() == Some(Role::Operate) && self.spec.action != Action::CheckConfig
    }
}

/// The method in the list. A response to HEAD is that to GET, without its body.
fn listed(method: &Method) -> &str {
    if method == Method::HEAD { "GET" } else { method.as_str() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, target: &str) -> Result<Call, Problem> {
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        Call::parse(&method.parse().unwrap(), path, query)
    }

    #[test]
    fn each_call_is_found_by_its_method_and_path() {
        for spec in &CALLS {
            let path = spec.path.replace("{policy}", "per%20client").replace("{key}", "a%2Fb");
            let path = path.replace("{file}", "style.css");
            let call = parse(spec.method, &path).unwrap();
            assert_eq!(call.spec.action, spec.action);
            if spec.path.contains("{key}") {
                assert_eq!((call.value(0), call.value(1)), ("per client", "a/b"));
            }
        }
    }

    #[test]
    fn only_operators_make_calls_with_other_methods_than_get() {
        for spec in &CALLS {
            let is_operators = spec.role == Some(Role::Operate);
            // A request is explained by its description, which is too long for a target.
            let is_read = spec.method == "GET" || spec.action == Action::Explain;
            assert_eq!(is_operators, !is_read, "{}", spec.path);
        }
    }

    #[test]
    fn only_operators_see_whole_keys_and_that_is_recorded() {
        let mut calls = 0;
        for spec in CALLS.iter().filter(|it| it.query.iter().any(|it| it.name == "reveal")) {
            let [plain, masked, whole] = ["", "?reveal=false", "?reveal=true"]
                .map(|query| parse(spec.method, &format!("{}{query}", spec.path)).unwrap());
            for call in [plain, masked] {
                assert_eq!((call.role(), call.is_recorded()), (Some(Role::Read), false));
            }
            assert_eq!((whole.role(), whole.is_recorded()), (Some(Role::Operate), true));
            calls += 1;
        }
        assert_eq!(calls, 4);
        assert!(parse("GET", "/v1/top?reveal=1").is_err());
        assert!(parse("GET", "/v1/policies?reveal=true").is_err());
    }

    #[test]
    fn other_paths_methods_and_parameters_are_refused() {
        for (method, target, status) in [
            ("GET", "/page/", 404),
            ("GET", "/v1", 404),
            ("GET", "/v1/policies/", 404),
            ("GET", "/v1/policies/a/keys/b/c", 404),
            ("GET", "/v1//policies", 404),
            ("GET", "/healthz/", 404),
            ("POST", "/v1/policies", 405),
            ("PUT", "/v1/policies/a", 405),
            ("GET", "/v1/config/check", 405),
            ("GET", "/v1/status?x=1", 400),
            ("GET", "/v1/policies?limit=1&x", 400),
            ("GET", "/v1/policies?limit=0", 400),
            ("GET", "/v1/policies?limit=1&limit=2", 400),
            ("GET", "/v1/policies/%ff", 400),
        ] {
            let problem = parse(method, target).expect_err(target);
            assert_eq!(problem.status.as_u16(), status, "{method} {target}");
        }
        let problem = parse("PATCH", "/v1/policies/a/keys/b").expect_err("no such method");
        assert_eq!(problem.allow.as_deref(), Some("GET, DELETE"));
        assert!(parse("HEAD", "/healthz").is_ok());
    }
}

//! The table of calls.

use crate::admin::Role;
use crate::admin::call::Call;
use crate::admin::calls::API;
use crate::admin::problem::Problem;
use crate::admin::spec::{CallSpec, KEYS, METRICS, OPERATE, READ};

fn parse(method: &str, target: &str) -> Result<(&'static CallSpec, Call), Problem> {
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    let spec = API.find(&method.parse().unwrap(), path)?;
    Ok((spec, spec.read(path, query)?))
}

#[test]
fn each_call_is_found_by_its_method_and_path() {
    for spec in API.calls() {
        let path = spec.path.replace("{policy}", "per%20client").replace("{key}", "a%2Fb");
        let path = path.replace("{file}", "style.css");
        let (found, call) = parse(spec.method, &path).unwrap();
        assert_eq!(found.id, spec.id);
        if spec.path.contains("{key}") {
            assert_eq!((call.value(0), call.value(1)), ("per client", "a/b"));
        }
    }
}

#[test]
fn only_operators_make_calls_with_other_methods_than_get() {
    for spec in API.calls() {
        // A request is explained by its description, which is too long for a target.
        let is_read = spec.method == "GET" || spec.id == "explain";
        let may = |role: Role| spec.role.is_none_or(|needed| role.may(needed, spec.is_change));
        assert!(may(Role::Operate), "{}", spec.path);
        assert_eq!(!may(Role::Read), !is_read, "{}", spec.path);
        let of_keys = ["/v1/keys", "/v1/teams", "/v1/caller"];
        assert_eq!(spec.role == KEYS, of_keys.iter().any(|it| spec.path.starts_with(it)));
        assert_eq!(may(Role::Keys), spec.role.is_none() || spec.role == KEYS, "{}", spec.path);
    }
}

#[test]
fn only_operators_see_whole_keys_and_that_is_recorded() {
    let mut calls = 0;
    for spec in API.calls().filter(|it| it.query.iter().any(|it| it.name == "reveal")) {
        let [plain, masked, whole] = ["", "?reveal=false", "?reveal=true"]
            .map(|query| parse(spec.method, &format!("{}{query}", spec.path)).unwrap());
        for (spec, call) in [plain, masked] {
            assert_eq!((spec.role_for(&call), spec.is_recorded(&call)), (READ, false));
        }
        let (spec, call) = whole;
        assert_eq!((spec.role_for(&call), spec.is_recorded(&call)), (OPERATE, true));
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
    // It is no key with the id `find`.
    let problem = parse("GET", "/v1/keys/find").unwrap_err();
    assert_eq!(problem.allow.as_deref(), Some("POST"));
    assert!(parse("HEAD", "/healthz").is_ok());
}

#[test]
fn each_role_has_its_calls() {
    let ids = |role: Option<Role>| -> Vec<&str> {
        API.calls().filter(|it| it.role == role).map(|it| it.id).collect()
    };
    assert_eq!(ids(None), ["getAlive", "getReady", "getOpenApi", "getPage", "getPageFile"]);
    assert_eq!(ids(METRICS), ["getMetrics"]);
    // Which of the others a reader may make follows from the method, as another test holds.
    let changes: Vec<&str> = API
        .calls()
        .filter(|it| it.role != KEYS && it.is_change != (it.role == OPERATE))
        .map(|it| it.id)
        .collect();
    assert_eq!(changes, ["checkConfig"], "operators' calls that are not recorded");
}

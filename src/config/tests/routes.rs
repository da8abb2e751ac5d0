//! Which routes get a warning for taking one path alone.

use super::*;

/// Whether a file with these routes has warnings; there are the upstreams `app` and `api`.
fn warns(routes: &str) -> bool {
    let text = format!(
        "listeners: [{{ address: 0.0.0.0:8080 }}]\n\
         upstreams:\n\
         \x20 app: {{ endpoints: [http://127.0.0.1:9000] }}\n\
         \x20 api: {{ endpoints: [http://127.0.0.1:9001] }}\n\
         routes: [{{ path: /for-api-alone/*, hosts: [api.test], methods: [PUT], upstream: api }}, \
         {routes}]\n"
    );
    let warnings = parse(&text).unwrap_or_else(|report| panic!("{report}")).warnings;
    let text = warnings.to_string();
    assert_eq!(warnings.is_empty(), !text.contains("alone, and nothing below it"), "{text}");
    !warnings.is_empty()
}

#[test]
fn a_lone_root_has_a_warning_unless_other_routes_use_its_upstream() {
    for routes in [
        "{ path: /, upstream: app }",
        "{ path: /, upstream: app }, { path: /health, respond: {} }",
        "{ path: /, upstream: app }, { path: /x/*, upstream: api }",
        "{ path: /, hosts: [a.test], upstream: app }, { path: /*, hosts: [b.test], respond: {} }",
    ] {
        assert!(warns(routes), "{routes}");
    }
    for routes in [
        "{ path: /*, upstream: app }",
        "{ path: /, upstream: app }, { path: /*, respond: { status: 404 } }",
        "{ path: /, hosts: [a.test], upstream: app }, { path: /*, hosts: [\"*.test\"], respond: {} }",
        "{ path: /, upstream: app }, { path: /about, upstream: app }",
        "{ path: /, methods: [GET], upstream: app }",
        "{ path: /{page}, upstream: app }",
        "{ path: /x/*, upstream: app }, { path: /, redirect: { to: /x/ } }",
    ] {
        assert!(!warns(&routes.replace("/{page}", "\"/{page}\"")), "{routes}");
    }
}

#[test]
fn other_lone_paths_have_a_warning_only_if_no_other_route_has_an_upstream() {
    // The route of `api` is there.
    assert!(!warns("{ path: /graphql, upstream: app }"));
    let alone = |routes: &str| {
        let text = SMALLEST.replace("{ path: /*, policies: [per-client], upstream: app }", routes);
        parse(&text).unwrap().warnings.to_string().contains("alone, and nothing below it")
    };
    assert!(alone("{ path: /api, policies: [per-client], upstream: app }"));
    assert!(alone("{ path: /api/, upstream: app }"));
    assert!(!alone("{ path: /api, methods: [POST], upstream: app }"));
    assert!(!alone("{ path: /api/*, upstream: app }"));
    let below = "{ path: /api, upstream: app }\n  - { path: /api/old/*, respond: { status: 410 } }";
    assert!(!alone(below));
}

/// It is reached by what overflows, and another order would send all requests to it.
#[test]
fn the_target_of_an_overflow_may_have_the_path_of_the_route_before_it() {
    let text = "listeners: [{ address: \"0.0.0.0:8080\" }]\n\
         upstreams: { app: http://127.0.0.1:9000, spare: http://127.0.0.1:9001 }\n\
         policies: { team: { key: ip, limit: 5/day }, tenant: { key: \"param:it\", limit: 5/day } }\n\
         routes:\n  \
           - { path: \"/v1/{it}/*\", policies: [team], upstream: app, OVERFLOW }\n  \
           - { name: spare, path: \"/v1/{it}/*\", policies: [tenant], upstream: spare, \
               rewrite: { strip_prefix: /v1 } }\n";
    let with = |overflow: &str| parse(&text.replace("OVERFLOW", overflow)).unwrap().warnings;
    let warnings = with("overflow: { policies: [team], route: spare }");
    assert!(warnings.is_empty(), "{warnings}");
    assert!(with("").to_string().contains("route \"spare\" can never match"));
}

//! Short forms of sections, which become the long forms before anything else reads the tree.
//!
//! A text in the place of an upstream is its only endpoint, and one in the place of `store.redis`
//! its URL. A policy that is written in a route, or in `defaults`, moves to the section `policies`,
//! under a name that is made from the route. All later passes know the long forms only.

use super::node::{Entry, Node, Text, TextSpan, Value};
use super::problem::Problems;
use super::secrecy::{Secrecy, is_reference};

/// Replaces all short forms of the tree of a whole file.
pub fn expand(root: &mut Node, problems: &Problems) {
    let mut written = Vec::new();
    for section in entries(root) {
        match section.name() {
            "upstreams" => entries(&mut section.value).for_each(|it| endpoint(&mut it.value)),
            "store" => entries(&mut section.value)
                .filter(|it| it.name() == "redis" && may_be_url(&it.value))
                .for_each(|it| wrap(&mut it.value, "url", |url| url)),
            "defaults" => take_policies(&mut section.value, "defaults", &mut written),
            "routes" => {
                let Value::List(routes) = &mut section.value.value else { continue };
                for (index, route) in routes.iter_mut().enumerate() {
                    let name = route_name(route).unwrap_or_else(|| (index + 1).to_string());
                    take_policies(route, &format!("route-{name}"), &mut written);
                }
            }
            _ => {}
        }
    }
    if !written.is_empty() {
        define(root, written, problems);
    }
}

/// The entries of a map. None of any other value.
fn entries(node: &mut Node) -> impl Iterator<Item = &mut Entry> {
    let entries = match &mut node.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    };
    entries.into_iter().flatten()
}

/// Whether a text could be a URL. Any other text, such as a password without the blank after
/// `password:`, is not shown in reports, because no section has such a place.
fn may_be_url(node: &Node) -> bool {
    node.scalar().is_some_and(|text| text.contains("://") || is_reference(text))
}

fn endpoint(upstream: &mut Node) {
    wrap(upstream, "endpoints", |url| Node { value: Value::List(vec![url.clone()]), ..url });
}

/// Makes a text the value of the only field of a map.
fn wrap(node: &mut Node, field: &str, form: impl Fn(Node) -> Node) {
    if let Value::Text(_) = node.value {
        let value = form(node.clone());
        node.value = Value::Map(vec![Entry { key: text(field, node.span), value }]);
    }
}

/// The name of a route, if it is known before `${...}` is replaced.
fn route_name(route: &mut Node) -> Option<String> {
    let name = entries(route).find(|it| it.name() == "name")?.value.scalar()?.to_owned();
    (!name.contains("${")).then_some(name)
}

/// Takes the policies that are written in the list `policies` of a section, and leaves their names.
/// The second and further ones have a number in their names.
fn take_policies(section: &mut Node, name: &str, written: &mut Vec<Entry>) {
    let Some(list) = entries(section).find(|it| it.name() == "policies") else { return };
    let Value::List(items) = &mut list.value.value else { return };
    let items = items.iter_mut().filter(|item| matches!(item.value, Value::Map(_)));
    for (index, item) in items.enumerate() {
        let name = match index {
            0 => name.to_owned(),
            _ => format!("{name}-{}", index + 1),
        };
        let name = text(&name, item.span);
        written.push(Entry { key: name.clone(), value: std::mem::replace(item, name) });
    }
}

/// Adds policies to the section `policies`, which is made if there is none.
fn define(root: &mut Node, written: Vec<Entry>, problems: &Problems) {
    let Value::Map(sections) = &mut root.value else { return };
    let index = sections.iter().position(|it| it.name() == "policies").unwrap_or_else(|| {
        let span = written.first().map_or(TextSpan::FILE, |it| it.key.span);
        let value = Node { value: Value::Map(Vec::new()), span, secrecy: Secrecy::default() };
        sections.push(Entry { key: text("policies", span), value });
        sections.len() - 1
    });
    // A section with a mistake is reported by itself.
    let Value::Map(policies) = &mut sections[index].value.value else { return };
    for policy in written {
        if policies.iter().any(|it| it.name() == policy.name()) {
            let message = format!(
                "this policy has the name {:?}, which another policy has, too",
                policy.name()
            );
            problems.error(policy.key.span, &message, "rename the other policy, or the route");
            continue;
        }
        policies.push(policy);
    }
}

fn text(text: &str, span: TextSpan) -> Node {
    let value = Value::Text(Text { value: text.to_owned(), written: None });
    Node { value, span, secrecy: Secrecy::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::config::{Config, shown, yaml};

    fn long(text: &str) -> (Json, String) {
        let problems = Problems::default();
        let mut tree = yaml::parse(text, &problems).expect("it is YAML");
        expand(&mut tree, &problems);
        let report = problems.report("f", text, &crate::config::excerpt::Excerpts::default());
        (shown::shown(&tree), report.to_string())
    }

    #[test]
    fn a_text_is_the_endpoint_of_an_upstream_and_the_url_of_redis() {
        let short = "{ upstreams: { app: http://a, b: { endpoints: [http://b] }, c: 1 }, \
                     store: { redis: redis://r } }";
        let expected = json!({
            "upstreams": {
                "app": { "endpoints": ["http://a"] },
                "b": { "endpoints": ["http://b"] },
                "c": 1,
            },
            "store": { "redis": { "url": "redis://r" } },
        });
        assert_eq!(long(short), (expected, String::new()));
        for other in
            ["[1]", "{ upstreams: [a], store: { redis: a:b }, routes: { a: b }, defaults: 1 }"]
        {
            let mut tree = yaml::parse(other, &Problems::default()).expect("it is YAML");
            let before = shown::shown(&tree);
            expand(&mut tree, &Problems::default());
            assert_eq!(shown::shown(&tree), before);
        }
    }

    #[test]
    fn a_policy_in_a_route_moves_to_the_policies() {
        let (tree, report) = long(
            "policies: { p: { key: ip } }\n\
             defaults: { policies: [{ key: host }] }\n\
             routes:\n\
             - { path: /a, policies: [{ key: ip }, p, { key: user }] }\n\
             - { path: /b, name: orders, policies: [{ key: path }] }\n\
             - { path: /c, name: \"${N}\", policies: [{ key: route }] }\n",
        );
        assert_eq!(report, "");
        let policies = json!({
            "p": { "key": "ip" },
            "defaults": { "key": "host" },
            "route-1": { "key": "ip" },
            "route-1-2": { "key": "user" },
            "route-orders": { "key": "path" },
            "route-3": { "key": "route" },
        });
        assert_eq!(tree["policies"], policies);
        assert_eq!(tree["defaults"]["policies"], json!(["defaults"]));
        let routes = tree["routes"].as_array().expect("a list").iter();
        let names: Vec<String> = routes.map(|it| it["policies"].to_string()).collect();
        let expected = [r#"["route-1","p","route-1-2"]"#, r#"["route-orders"]"#, r#"["route-3"]"#];
        assert_eq!(names, expected);
        let (tree, _) = long("routes: [{ path: /a, policies: [{ key: ip }] }]");
        assert_eq!(tree["policies"], json!({ "route-1": { "key": "ip" } }));
    }

    #[test]
    fn short_and_long_forms_compile_to_the_same() {
        let of = |text: &str| {
            let compiled = Config::parse(text, "gateway.yaml", &|_| Some("redis://r".to_owned()));
            let config = compiled.expect("it has no mistake").config;
            format!("{config:?} {:?}", config.definitions.identity.config_sections)
        };
        let short = of("listeners: [{ address: 0.0.0.0:80 }]\n\
            upstreams: { app: http://a }\n\
            store: { redis: \"${URL}\" }\n\
            defaults: { policies: [{ key: host, limit: 2/s }] }\n\
            routes: [{ path: /*, upstream: app, policies: [{ key: ip, limit: 1/s }] }]\n");
        let long = of("listeners: [{ address: 0.0.0.0:80 }]\n\
            upstreams: { app: { endpoints: [http://a] } }\n\
            store: { redis: { url: \"${URL}\" } }\n\
            policies:\n  \
              defaults: { key: host, limit: 2/s }\n  \
              route-1: { key: ip, limit: 1/s }\n\
            defaults: { policies: [defaults] }\n\
            routes: [{ path: /*, upstream: app, policies: [route-1] }]\n");
        assert_eq!(short, long);
    }

    #[test]
    fn a_name_that_is_taken_is_a_mistake() {
        let (_, report) =
            long("policies: { route-1: {} }\nroutes: [{ path: /a, policies: [{ key: ip }] }]");
        assert!(report.contains("this policy has the name \"route-1\""), "{report}");
        assert!(report.contains("f:2:33"), "{report}");
    }
}

//! `overflow` of a route: a later route for requests that some policies refuse.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{BodyWords, KeyExpr, MAX_POINTERS};
use tollgate_core::request::Segment;
use tollgate_core::routes::Overflow;

use crate::config::field::{Field, List, Spanned};
use crate::config::model::Route;
use crate::config::sections::context::Context;
use crate::snapshot::Action;

/// A later route for requests that some policies refuse.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "overflow", default)]
#[schemars(deny_unknown_fields, extend("required" = ["policies", "route"]))]
pub struct RawOverflow {
    /// The policies of this route whose refusals lead to the other route. If another policy refuses,
    /// too, the request is refused.
    #[schemars(example = ["team"])]
    policies: List<String>,
    /// The name of the other route, which comes later in the file. Its access lists, credentials and
    /// policies judge the request; its hosts, path and methods are not compared.
    #[schemars(example = &"cheap")]
    route: Field<String>,
}

/// Connects the routes with their targets. `all` has what each route writes, and `names` the names of
/// all routes.
pub fn connect(
    all: &[Option<&Field<RawOverflow>>],
    names: &[String],
    routes: &mut [Option<Route>],
    cx: &Context<'_>,
) {
    for (index, written) in all.iter().enumerate() {
        let Some(given) = written.and_then(Field::given) else { continue };
        let Some(overflow) = given.value.compile(given, index, all, names, routes, cx) else {
            continue;
        };
        let target = routes[overflow.route].as_ref();
        let keys = target.into_iter().flat_map(|it| &it.rule.policies).cloned().collect::<Vec<_>>();
        let Some(route) = &mut routes[index] else { continue };
        if let Some(read) = &mut route.handling.read_body {
            // The body is read once, for the policies of both routes.
            let policies = route.rule.policies.iter().chain(&keys).map(|policy| &**policy);
            if let Some(words) = BodyWords::of_policies(policies) {
                read.words = words.as_message_of(&read.words);
            }
            if read.words.pointers() > MAX_POINTERS {
                let message = format!(
                    "the policies of both routes search a body for {} values, and at most \
                     {MAX_POINTERS} are possible",
                    read.words.pointers()
                );
                let advice = "use fewer keys with json: and mcp:, of which mcp: counts for two";
                cx.error(given.span, &message, advice);
            }
        }
        route.rule.overflow = Some(Box::new(overflow));
    }
}

impl RawOverflow {
    /// The overflow of the route with this index.
    fn compile(
        &self,
        given: &Spanned<Self>,
        index: usize,
        all: &[Option<&Field<Self>>],
        names: &[String],
        routes: &[Option<Route>],
        cx: &Context<'_>,
    ) -> Option<Overflow> {
        let message = "the overflow has no \"policies\"";
        cx.required(&self.policies, given.span, message, "like policies: [team]");
        let message = "the overflow has no \"route\"";
        cx.required(&self.route, given.span, message, "like route: cheap");
        let message = "the list is empty, so no request overflows";
        cx.not_empty(&self.policies, message, "like policies: [team]");
        let own = routes[index].as_ref();
        for policy in self.policies.items() {
            check_policy(policy, own?, cx);
        }
        let name = self.route.given()?;
        let shown = name.shown();
        let target = names.iter().position(|it| *it == name.value);
        let Some(target) = target else {
            let message = format!("there is no route \"{shown}\"");
            let later = names[index + 1..].iter().find(|name| name.parse::<u64>().is_err());
            let advice = match later {
                Some(later) => format!("write the name of a later route, such as {later}"),
                None => "write the name of a later route: name: cheap".to_owned(),
            };
            cx.error(name.span, &message, &advice);
            return None;
        };
        if target <= index {
            let message = match target == index {
                true => "the route overflows into itself".to_owned(),
                false => format!("the route \"{shown}\" comes before this one"),
            };
            cx.error(
                name.span,
                &message,
                "name a later route, so that no request goes in a circle",
            );
            return None;
        }
        if all[target].is_some_and(|overflow| !overflow.is_absent()) {
            let message = format!("the route \"{shown}\" overflows itself");
            let advice = "a request is judged twice at most: name a route without an overflow";
            cx.error(name.span, &message, advice);
            return None;
        }
        if let Some(other) = &routes[target] {
            if other.rule.policies.is_empty() {
                let message =
                    format!("the route \"{shown}\" has no policies: what overflows is not limited");
                cx.warning(name.span, &message, "give that route a limit of its own");
            }
            check_path(name, own?, other, cx);
        }
        let policies = self.policies.items().map(|it| it.value.as_str().into()).collect();
        Some(Overflow { policies, route: target })
    }
}

/// Reports what the other route takes from its place in the path, if a path of the route `own` may
/// have something else there: a prefix that is removed, and parameters.
fn check_path(name: &Spanned<String>, own: &Route, other: &Route, cx: &Context<'_>) {
    let shown = name.shown();
    let own = &own.rule.path.segments;
    let its = &other.rule.path.segments;
    let changes = other.handling.changes.as_ref();
    let strip = changes.and_then(|changes| changes.rewrite.strip.as_ref());
    // A prefix that is longer than the route's own path has an error of its own.
    if let Some(prefix) = strip.and_then(|strip| its.get(..strip.segments))
        && !own.starts_with(prefix)
    {
        let message = format!(
            "the route \"{shown}\" removes a prefix with which the path of this route does not begin"
        );
        let advice = "begin both paths with it, or leave out strip_prefix there";
        cx.error(name.span, &message, advice);
    }
    let mut missing = params(other);
    missing.retain(|param| {
        let is_param = |segment: &Segment| matches!(segment, Segment::Param(it) if **it == **param);
        its.iter().position(is_param).is_none_or(|index| its.get(index) != own.get(index))
    });
    if let Some(param) = missing.first() {
        let message = format!(
            "the route \"{shown}\" needs \"param:{param}\", which is not in the same place of this \
             route's path"
        );
        let advice = "put the parameter into the same segment of both paths, or use another key";
        cx.error(name.span, &message, advice);
    }
}

/// The parameters of its path that a route uses.
fn params(route: &Route) -> Vec<&str> {
    let mut params = Vec::new();
    for key in route.rule.keys() {
        key.visit(&mut |part| {
            if let KeyExpr::Param(name) = part {
                params.push(&**name);
            }
        });
    }
    if let Action::Redirect(redirect) = &route.handling.action {
        params.extend(redirect.to.param_names());
    }
    params
}

/// Reports a policy whose refusals cannot lead to another route.
fn check_policy(name: &Spanned<String>, own: &Route, cx: &Context<'_>) {
    let shown = name.shown();
    let Some(policy) = own.rule.policies.iter().find(|it| *it.name == *name.value) else {
        let message = format!("the route has no policy \"{shown}\"");
        cx.error(name.span, &message, "name policies of this route that are in force");
        return;
    };
    if policy.needs_authorizer() {
        let message = format!("the policy \"{shown}\" needs the answer of the authorizer");
        let advice = "only policies that judge before the authorizer is asked can overflow";
        cx.error(name.span, &message, advice);
    }
}

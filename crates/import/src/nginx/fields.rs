//! Header fields, bodies, times and compression of a route.

use super::levels::Levels;
use super::syntax::Directive;
use super::upstreams::Target;
use super::values::{has_variables, size, time};
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::quantity::{period, size as size_text};
use crate::report::Loss;
use crate::secret::is_secret;

/// Fields that a route cannot set in a request, besides those that the gateway writes.
const FIXED: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];
/// Fields that a route cannot set in a response.
const FIXED_IN_RESPONSES: [&str; 10] = [
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "keep-alive",
    "retry-after",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];
/// The largest body that nginx takes unless told.
const MAX_BODY: u64 = 1 << 20;
/// How long nginx waits for an endpoint unless told.
const WAIT_MS: u64 = 60_000;

/// What a location changes in requests to its upstream: the fields of the route, and the host.
pub fn of_requests(
    levels: &Levels<'_>,
    target: &Target<'_>,
    plan: &mut Plan,
    notes: &mut Notes,
) -> (Map, Option<String>) {
    let own_host = || match target.host.strip_prefix("unix:") {
        Some(_) => "localhost".to_owned(),
        None => target.host.to_owned(),
    };
    let mut host = Some(own_host());
    let mut set = Map::default();
    let mut remove = Vec::new();
    for it in levels.nearest_of(&["proxy_set_header", "grpc_set_header"]) {
        let name = it.arg(0).to_ascii_lowercase();
        let value = it.arg(1);
        if name == "host" {
            host = match value {
                "$proxy_host" => Some(own_host()),
                value if has_variables(value) => None,
                value => Some(value.to_owned()),
            };
            let what = match &host {
                Some(host) => format!("rewrite.host: {host}"),
                None => "the host that the client asked for".to_owned(),
            };
            notes.taken(&it.name, it.place, what);
        } else if name.starts_with("x-forwarded-") || name == "forwarded" || FIXED.contains(&&*name)
        {
            let what = format!("{name}: the gateway writes it as it needs it");
            notes.needless(&it.name, it.place, what);
        } else if has_variables(value) {
            let what = match &*name {
                "x-real-ip" => "x-real-ip: read x-forwarded-for".to_owned(),
                _ => format!("{name}: a value with variables is not written"),
            };
            notes.not_taken(&it.name, it.place, Loss::Harmless, what);
        } else if set.get(&name).is_some() || remove.contains(&name) || !is_field(&name) {
            let what = format!("{name}: it cannot be set a second time, or is no name of a field");
            notes.not_taken(&it.name, it.place, Loss::Harmless, what);
        } else if value.is_empty() {
            notes.taken(&it.name, it.place, format!("request_headers.remove: {name}"));
            remove.push(name);
        } else {
            notes.taken(&it.name, it.place, format!("request_headers.set: {name}"));
            let value = match is_secret(&name) {
                true => plan.variable(&name, &format!("the value of {name} for {}", target.host)),
                false => value.to_owned(),
            };
            set.put(&name, value);
        }
    }
    (edits(set, remove), host)
}

/// What a location changes in responses.
pub fn of_responses(levels: &Levels<'_>, notes: &mut Notes) -> Map {
    let mut set = Map::default();
    let mut remove: Vec<String> = Vec::new();
    for it in levels.nearest("proxy_hide_header") {
        let name = it.arg(0).to_ascii_lowercase();
        if is_field(&name) && !FIXED_IN_RESPONSES.contains(&&*name) && !remove.contains(&name) {
            notes.taken(&it.name, it.place, format!("response_headers.remove: {name}"));
            remove.push(name);
        }
    }
    for it in levels.nearest("add_header") {
        let name = it.arg(0).to_ascii_lowercase();
        let is_own = FIXED_IN_RESPONSES.contains(&&*name)
            || name.starts_with("x-ratelimit-")
            || name.starts_with("ratelimit");
        let value = it.arg(1);
        if is_own || has_variables(value) || set.get(&name).is_some() || !is_field(&name) {
            let what = format!("{name}: it has variables, is set twice, or is the gateway's own");
            notes.not_taken("add_header", it.place, Loss::Harmless, what);
            continue;
        }
        if value.is_empty() {
            notes.needless("add_header", it.place, format!("{name}: it is empty"));
            continue;
        }
        match it.arg(2) {
            "always" => {
                notes.taken("add_header", it.place, format!("response_headers.set: {name}"))
            }
            _ => {
                let what =
                    format!("{name}: nginx leaves it out of errors; here all responses have it");
                notes.different("add_header", it.place, what);
            }
        }
        // Setting replaces what the endpoint says.
        remove.retain(|own| *own != name);
        set.put(&name, value);
    }
    edits(set, remove)
}

fn edits(set: Map, remove: Vec<String>) -> Map {
    let mut edits = Map::default();
    if !set.is_empty() {
        edits.put("set", set);
    }
    if !remove.is_empty() {
        edits.put("remove", remove);
    }
    edits
}

fn is_field(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The fields `max_body`, `timeouts` and `compress` of a route to an upstream.
pub fn bounds(levels: &Levels<'_>, route: &mut Map, notes: &mut Notes) {
    let setting = levels.setting("client_max_body_size");
    let most = setting.and_then(|it| size(it.arg(0))).unwrap_or(MAX_BODY);
    if let Some(it) = setting {
        notes.taken(&it.name, it.place, format!("max_body: {}", size_text(most)));
    }
    if most > 0 {
        route.put("max_body", size_text(most));
    }
    let setting = levels.nearest_of(&["proxy_read_timeout", "grpc_read_timeout"]).pop();
    let wait = setting.and_then(|it| time(it.arg(0))).filter(|ms| *ms > 0).unwrap_or(WAIT_MS);
    let wait = period(wait.min(86_400_000));
    let mut timeouts = Map::default().with("response", &*wait);
    if let Some(it) = setting {
        notes.taken(&it.name, it.place, format!("timeouts.response and idle: {wait}"));
        timeouts.put("idle", &*wait);
    }
    route.put("timeouts", timeouts);
    if let Some(compress) = compress(levels, notes) {
        route.put("compress", compress);
    }
}

fn compress(levels: &Levels<'_>, notes: &mut Notes) -> Option<Map> {
    let gzip = levels.setting("gzip")?;
    if gzip.arg(0) != "on" {
        notes.needless("gzip", gzip.place, "responses are not compressed unless told");
        return None;
    }
    notes.taken("gzip", gzip.place, "compress");
    let mut types = vec!["text/html".to_owned()];
    for it in levels.nearest("gzip_types") {
        let is_known = |text: &&String| text.split('/').count() == 2 && text.is_ascii();
        types.extend(it.args.iter().filter(is_known).filter(|it| *it != "text/html").cloned());
        notes.taken("gzip_types", it.place, "compress.types");
    }
    types.sort();
    types.dedup();
    let least = levels.setting("gzip_min_length");
    if let Some(it) = least {
        notes.taken("gzip_min_length", it.place, "compress.min_size");
    }
    let least = least.and_then(|it| size(it.arg(0))).unwrap_or(20);
    Some(Map::default().with("min_size", least).with("types", types))
}

/// The path that an upstream gets: the fields of `rewrite`, and what is different.
///
/// # Errors
/// If nginx joins the paths in a way that there is not here.
pub fn rewrite(
    location: &str,
    is_exact: bool,
    target: Option<&str>,
) -> Result<(Map, Option<&'static str>), &'static str> {
    let mut map = Map::default();
    let Some(uri) = target.filter(|uri| *uri != location) else { return Ok((map, None)) };
    if uri.contains(['?', '#', '%']) || uri.contains("//") {
        return Err("the target has a query or escapes");
    }
    let is_closed = (location.ends_with('/'), uri.ends_with('/'));
    let difference = match (is_exact, is_closed) {
        (true, _) if uri == "/" => None,
        (true, _) => Some("the upstream gets this path with a slash at its end"),
        (false, (true, true)) => None,
        (false, (true, false)) => {
            return Err("nginx joins the target and the rest without a slash");
        }
        (false, (false, _)) => Some(
            "nginx also takes paths that go on without a slash, and may send two slashes; here whole \
             segments match",
        ),
    };
    let cut = |text: &str| text.trim_end_matches('/').to_owned();
    if !cut(location).is_empty() {
        map.put("strip_prefix", cut(location));
    }
    if !cut(uri).is_empty() {
        map.put("add_prefix", cut(uri));
    }
    Ok((map, difference))
}

/// Says that a limit has no effect, because `return` is before it.
pub fn before_limits(location: &Directive, notes: &mut Notes) {
    for it in location.inner() {
        if matches!(&*it.name, "limit_req" | "limit_conn" | "allow" | "deny") {
            let what = "nginx answers a return before it limits: it has no effect";
            notes.needless(&it.name, it.place, what);
        }
    }
}

/// How paths are compared, as nginx does.
pub fn path_match() -> Value {
    let exact = |map: Map, name| map.with(name, "exact");
    ["case", "parameters", "trailing_slash"].into_iter().fold(Map::default(), exact).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(location: &str, is_exact: bool, target: Option<&str>) -> String {
        match rewrite(location, is_exact, target) {
            Ok((map, difference)) => {
                format!(
                    "{}{}",
                    crate::out::flow(&map.into()),
                    if difference.is_some() { " !" } else { "" }
                )
            }
            Err(_) => "-".to_owned(),
        }
    }

    #[test]
    fn paths_of_targets_replace_those_of_locations() {
        for (location, is_exact, target, is) in [
            ("/a/", false, None, "{}"),
            ("/a/", false, Some("/a/"), "{}"),
            ("/a/", false, Some("/"), "{ strip_prefix: /a }"),
            ("/a/", false, Some("/b/c/"), "{ strip_prefix: /a, add_prefix: /b/c }"),
            ("/", false, Some("/b/"), "{ add_prefix: /b }"),
            ("/a/", false, Some("/b"), "-"),
            ("/a", false, Some("/b"), "{ strip_prefix: /a, add_prefix: /b } !"),
            ("/a", true, Some("/b"), "{ strip_prefix: /a, add_prefix: /b } !"),
            ("/a", true, Some("/"), "{ strip_prefix: /a }"),
            ("/a/", false, Some("/b/?x"), "-"),
        ] {
            assert_eq!(written(location, is_exact, target), is, "{location} {target:?}");
        }
    }
}

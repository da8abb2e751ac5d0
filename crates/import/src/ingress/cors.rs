//! `enable-cors` of an Ingress.

use super::limits::Annotations;
use super::settings::list;
use crate::notes::Notes;
use crate::out::{Map, Value};

const METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,\
                       Content-Type,Range,Authorization";
/// The longest time for which an answer to a preflight may be remembered here, in seconds.
const MAX_AGE: u64 = 86_400;

/// The section `cors` of the routes.
pub fn cors(own: &Annotations<'_>, notes: &mut Notes) -> Option<Map> {
    let (text, place) = own.get("enable-cors")?;
    if text != "true" {
        notes.needless("enable-cors", place, "it is off unless told");
        return None;
    }
    let value =
        |name: &str, other: &str| own.get(name).map_or(other.to_owned(), |it| it.0.to_owned());
    let origins = list(&value("cors-allow-origin", "*"));
    let is_any = origins.iter().any(|origin| origin == "*");
    let is_known =
        |it: &String| it == "*" || it.starts_with("https://") || it.starts_with("http://");
    if !origins.iter().all(is_known) {
        notes.lost("enable-cors", place, "an origin has no scheme: write cors");
        return None;
    }
    let mut cors = Map::default();
    cors.put("origins", if is_any { vec!["*".to_owned()] } else { origins });
    let methods = list(&value("cors-allow-methods", METHODS));
    let simple = ["GET", "HEAD", "POST", "OPTIONS"];
    let methods: Vec<String> = methods.into_iter().filter(|it| !simple.contains(&&**it)).collect();
    if !methods.is_empty() {
        cors.put("methods", methods);
    }
    let headers = list(&value("cors-allow-headers", HEADERS));
    let headers: Vec<String> = headers.into_iter().map(|it| it.to_ascii_lowercase()).collect();
    if !headers.is_empty() {
        cors.put("headers", headers);
    }
    let exposed = list(&value("cors-expose-headers", ""));
    if !exposed.is_empty() {
        cors.put("expose", Value::from(exposed));
    }
    let credentials = value("cors-allow-credentials", "true") == "true";
    if credentials && !is_any {
        cors.put("credentials", true);
    }
    let age = value("cors-max-age", "1728000").parse::<u64>().unwrap_or(MAX_AGE);
    cors.put("max_age", format!("{}s", age.min(MAX_AGE)));
    let mut differences = Vec::new();
    if age > MAX_AGE {
        differences.push(format!("nginx says max-age {age} s, here it is {MAX_AGE} s"));
    }
    if credentials && is_any {
        differences.push("credentials are not allowed for all origins".to_owned());
    }
    match &differences[..] {
        [] => notes.taken("enable-cors", place, "cors"),
        some => notes.different("enable-cors", place, format!("cors; {}", some.join("; "))),
    }
    for name in [
        "cors-allow-origin",
        "cors-allow-methods",
        "cors-allow-headers",
        "cors-allow-credentials",
        "cors-expose-headers",
        "cors-max-age",
    ] {
        if let Some((_, place)) = own.get(name) {
            notes.taken(name, place, "a part of cors");
        }
    }
    Some(cors)
}

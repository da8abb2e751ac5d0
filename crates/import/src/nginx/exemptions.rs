//! Requests that a zone does not count, because a map gives them no key.

use std::net::IpAddr;

use super::key::{Choice, Key};
use crate::network::{contains, masked, network};
use crate::out::Map;
use crate::secret::is_secret;

/// The methods that a map to methods leaves out by name.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Adds the requests for which a map gives no key.
///
/// # Errors
/// Why there are no such exemptions here.
pub fn exemptions(choice: &Choice<'_>, key: &mut Key) -> Result<(), String> {
    let source = choice.source.strip_prefix('$').unwrap_or_default();
    let is_empty = |value: &str| value.is_empty();
    let (exempt, counted): (Vec<_>, Vec<_>) =
        choice.entries.iter().copied().partition(|(_, value)| is_empty(value));
    let exempt: Vec<&str> = exempt.into_iter().map(|(pattern, _)| pattern).collect();
    let counted: Vec<&str> = counted.into_iter().map(|(pattern, _)| pattern).collect();
    if source == "request_method" && !choice.is_geo {
        return methods(choice, &exempt, &counted, key);
    }
    if choice.other.is_empty() {
        return Err("its map counts some values only: write a route or a class for them".to_owned());
    }
    if exempt.is_empty() {
        return Ok(());
    }
    match (source, choice.is_geo) {
        ("remote_addr", true) => {
            key.exempt.put("ips", networks(&exempt, &counted)?);
            Ok(())
        }
        // A map compares texts, and no text of an address has a slash.
        ("remote_addr", false) => match exempt.iter().find(|it| it.parse::<IpAddr>().is_err()) {
            Some(other) => Err(format!("{other} is no address: a map does not know networks")),
            None => {
                key.exempt.put("ips", exempt);
                Ok(())
            }
        },
        (_, true) => Err(format!("it has exemptions by the address in ${source}")),
        (_, false) => field(source, &exempt, key),
    }
}

/// Exemptions by methods.
fn methods(
    choice: &Choice<'_>,
    exempt: &[&str],
    counted: &[&str],
    key: &mut Key,
) -> Result<(), String> {
    let has = |list: &[&str], method: &str| list.iter().any(|it| it.eq_ignore_ascii_case(method));
    let is_method =
        |text: &str| text.bytes().all(|it| it.is_ascii_alphabetic() || b"-_".contains(&it));
    let all = choice.other.is_empty();
    if all {
        let what = "nginx does not count other methods; here methods with other names count";
        key.difference = Some(what.to_owned());
    }
    let is_exempt = |it: &&&str| if all { !has(counted, it) } else { has(exempt, it) };
    let mut methods: Vec<String> =
        METHODS.iter().filter(is_exempt).map(|it| (*it).to_owned()).collect();
    for method in exempt {
        if method.is_empty() || !is_method(method) {
            return Err(format!("it has exemptions by {method:?}, which is no method"));
        }
        let method = method.to_ascii_uppercase();
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    if !methods.is_empty() {
        key.exempt.put("methods", methods);
    }
    Ok(())
}

/// Exemptions by a value of a field.
fn field(source: &str, exempt: &[&str], key: &mut Key) -> Result<(), String> {
    let Some(field) = source.strip_prefix("http_") else {
        return Err(format!("it has exemptions by ${source}"));
    };
    let [value] = exempt[..] else {
        return Err(format!("it has exemptions by several values of ${source}"));
    };
    if value.is_empty() {
        return Err(format!("it has exemptions of requests without ${source}"));
    }
    if value.contains('$') {
        return Err(format!("it has exemptions by variables in ${source}"));
    }
    let field = field.replace('_', "-");
    if is_secret(&field) || value.len() >= 16 {
        key.secret = Some(field.clone());
    }
    if value.contains(|it: char| it.is_alphabetic()) {
        let what = format!("nginx compares {field} without regard to case; here case matters");
        key.difference = match key.difference.take() {
            Some(other) => Some(format!("{other}; {what}")),
            None => Some(what),
        };
    }
    key.exempt.put("headers", Map::default().with(&field, value));
    Ok(())
}

fn networks(exempt: &[&str], counted: &[&str]) -> Result<Vec<String>, String> {
    let parse = |text: &str| network(text).ok_or_else(|| format!("{text} is no network"));
    for text in exempt {
        let wide = parse(text)?;
        for inner in counted {
            if contains(wide, parse(inner)?) {
                return Err(format!("{inner} is counted, and is a part of {text}, which is not"));
            }
        }
    }
    Ok(exempt.iter().map(|it| masked(it)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::keys::Maps;
    use super::super::syntax::parse;
    use super::*;
    use crate::files::Source;
    use crate::out::flow;

    fn made(maps: &str) -> Result<Key, String> {
        let directives = parse(&Source { file: 0, text: maps.to_owned() }, 0).unwrap();
        Maps::of(&directives).key("$k", None)
    }

    fn key(maps: &str) -> Result<String, String> {
        let key = made(maps)?;
        Ok(format!("{} {}", flow(&key.value.unwrap()), flow(&key.exempt.into())))
    }

    /// nginx reads the value of the variable of a geo as an address, and a map compares texts.
    #[test]
    fn exemptions_by_networks_are_those_of_the_address() {
        let of_field = "geo $http_x_forwarded_for $g { default 0; 10.0.0.0/8 1; } \
                        map $g $k { 0 $remote_addr; 1 ''; }";
        assert!(key(of_field).unwrap_err().contains("$http_x_forwarded_for"));
        let of_method = "geo $request_method $k { default $remote_addr; 10.0.0.0/8 ''; }";
        assert!(key(of_method).is_err());
        let of_bytes = "map $binary_remote_addr $k { default $remote_addr; 10.0.0.1 ''; }";
        assert!(key(of_bytes).is_err());
        let of_text = "map $remote_addr $k { default $remote_addr; 10.0.0.0/8 ''; }";
        assert!(key(of_text).is_err());
        let address = "map $remote_addr $k { default $remote_addr; 10.0.0.1 ''; }";
        assert_eq!(key(address).unwrap(), "ip { ips: [\"10.0.0.1\"] }");
        let geo =
            "geo $remote_addr $g { default 1; 10.0.0.0/8 0; } map $g $k { 0 ''; 1 $remote_addr; }";
        assert_eq!(key(geo).unwrap(), "ip { ips: [10.0.0.0/8] }");
    }

    #[test]
    fn a_map_does_not_regard_case() {
        let word = made("map $http_x_client $k { default $remote_addr; Trusted ''; }");
        assert!(word.unwrap().difference.unwrap().contains("without regard to case"));
        let number = made("map $http_x_client $k { default $remote_addr; 17 ''; }");
        assert_eq!(number.unwrap().difference, None);
    }

    #[test]
    fn a_map_may_exempt_any_method() {
        let maps = "map $request_method $k { default $remote_addr; PURGE ''; get ''; }";
        assert_eq!(key(maps).unwrap(), "ip { methods: [GET, PURGE] }");
        let bad = "map $request_method $k { default $remote_addr; 'a b' ''; }";
        assert!(key(bad).is_err());
    }

    #[test]
    fn what_a_map_of_a_map_reads_is_known() {
        let case =
            "map $http_a $b { default x; 1 FREE; } map $b $k { free ''; default $remote_addr; }";
        assert_eq!(key(case).unwrap(), "ip { headers: { a: \"1\" } }");
        for maps in [
            "map $http_a $b { default $http_c; 1 y; } map $b $k { y ''; default $remote_addr; }",
            "map $http_a $b { default 1; 10.0.0.1 2; } geo $b $k { default $remote_addr; 10.0.0.1 ''; }",
            "map $http_a $k { '' ''; default $remote_addr; }",
        ] {
            assert!(key(maps).is_err(), "{maps}");
        }
    }
}

//! The locations of a server, in the order in which nginx looks at them.

use std::collections::HashMap;

use super::levels::Levels;
use super::syntax::Directive;

/// How a location matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// `=`: the path itself.
    Exact,
    /// The beginning of the path.
    Prefix,
    /// A regular expression.
    Pattern,
    /// `@name`: no request has it at first.
    Named,
}

/// A location with the levels around it.
pub struct Location<'a> {
    /// The directive.
    pub directive: &'a Directive,
    /// How it matches.
    pub matches: Match,
    /// The path, or the expression.
    pub path: &'a str,
    /// Its levels.
    pub levels: Levels<'a>,
}

/// All locations: exact ones, then prefixes from the longest, then what is not taken.
pub fn locations<'a>(levels: &Levels<'a>, server: &'a [Directive]) -> Vec<Location<'a>> {
    let mut found = Vec::new();
    collect(levels, server, &mut found);
    let rank = |it: &Location<'_>| match it.matches {
        Match::Exact => 0,
        Match::Prefix => 1,
        Match::Pattern => 2,
        Match::Named => 3,
    };
    // Stable: of two equal paths the first one counts, and nginx refuses the second.
    found.sort_by_key(|it| (rank(it), std::cmp::Reverse(it.path.len())));
    found
}

/// For the path of each prefix location, the location that has its requests if they are not its own:
/// the longest other prefix that it begins with.
pub fn around<'l, 'a>(all: &'l [Location<'a>]) -> HashMap<&'a str, &'l Location<'a>> {
    let mut prefixes: Vec<&Location<'_>> =
        all.iter().filter(|it| it.matches == Match::Prefix).collect();
    // A prefix of a path is before it, and what is between them has the same prefix.
    prefixes.sort_by_key(|it| it.path);
    prefixes.dedup_by_key(|it| it.path);
    let mut around = HashMap::new();
    let mut open: Vec<&Location<'_>> = Vec::new();
    for location in prefixes {
        while open.last().is_some_and(|it| !location.path.starts_with(it.path)) {
            open.pop();
        }
        if let Some(outer) = open.last() {
            around.insert(location.path, *outer);
        }
        open.push(location);
    }
    around
}

fn collect<'a>(levels: &Levels<'a>, level: &'a [Directive], found: &mut Vec<Location<'a>>) {
    for directive in level.iter().filter(|it| it.name == "location") {
        let (matches, path) = match &directive.args[..] {
            [sign, path] if sign == "=" => (Match::Exact, path),
            [sign, path] if sign == "^~" => (Match::Prefix, path),
            [sign, path] if sign == "~" || sign == "~*" => (Match::Pattern, path),
            [path] if path.starts_with('@') => (Match::Named, path),
            // A sign without a blank.
            [path] if path.starts_with('~') => (Match::Pattern, path),
            [path] if path.starts_with('=') => (Match::Exact, path),
            [path, ..] => (Match::Prefix, path),
            [] => continue,
        };
        let path = path.strip_prefix('=').filter(|_| matches == Match::Exact).unwrap_or(path);
        let inner = levels.with(directive.inner());
        if matches != Match::Pattern {
            collect(&inner, directive.inner(), found);
        }
        found.push(Location { directive, matches, path, levels: inner });
    }
}

/// The path of a route without what a route cannot have. Locations are compared after escapes are
/// decoded, so characters that cannot stand in a path are escaped.
///
/// # Errors
/// Why no route has such a path.
pub fn path(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err("a path begins with a slash".to_owned());
    }
    if text.contains("//") || text.split('/').any(|segment| segment == "." || segment == "..") {
        return Err("no request has such a path here".to_owned());
    }
    let mut path = String::new();
    for byte in text.bytes() {
        match byte {
            b'{' | b'}' | b'*' => {
                return Err(format!("{:?} has a meaning in paths here", char::from(byte)));
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => path.push(char::from(byte)),
            b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'+'
            | b',' | b';' | b'=' | b':' | b'@' => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    if path.contains('$') || path.contains(';') {
        return Err("it has a sign that is read differently here".to_owned());
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Source;
    use crate::nginx::syntax::parse;

    #[test]
    fn exact_paths_come_first_and_then_long_prefixes() {
        let text = "location / {} location /a/b {} location = /a {} location ~ x { location /y {} } \
                    location ^~ /a { location /a/bc {} } location @n {}";
        let server = parse(&Source { file: 0, text: text.to_owned() }, 0).unwrap();
        let all = locations(&Levels::default().with(&server), &server);
        let shown: Vec<_> = all.iter().map(|it| (it.matches, it.path)).collect();
        use Match::{Exact, Named, Pattern, Prefix};
        assert_eq!(
            shown,
            [
                (Exact, "/a"),
                (Prefix, "/a/bc"),
                (Prefix, "/a/b"),
                (Prefix, "/a"),
                (Prefix, "/"),
                (Pattern, "x"),
                (Named, "@n")
            ]
        );
    }

    #[test]
    fn the_longest_other_prefix_is_around_a_location() {
        let text = "location / {} location /a {} location /a/ {} location /a/b/ {} location /a-b/ {} \
                    location /b/ {} location = /b {} location ~ /a/b {}";
        let server = parse(&Source { file: 0, text: text.to_owned() }, 0).unwrap();
        let all = locations(&Levels::default().with(&server), &server);
        let around = around(&all);
        for (path, is) in [
            ("/", None),
            ("/a", Some("/")),
            ("/a/", Some("/a")),
            ("/a/b/", Some("/a/")),
            ("/a-b/", Some("/a")),
            ("/b/", Some("/")),
        ] {
            assert_eq!(around.get(path).map(|it| it.path), is, "{path}");
        }
    }

    #[test]
    fn paths_are_escaped_or_refused() {
        assert_eq!(path("/a b/é").as_deref(), Ok("/a%20b/%C3%A9"));
        for text in ["", "a", "/a//b", "/../x", "/{x}", "/*", "/a;b", "/$x"] {
            assert!(path(text).is_err(), "{text}");
        }
    }
}

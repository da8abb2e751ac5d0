//! The paths of Ingresses: how they match, and in which order.

use crate::nginx::locations::path as written;

/// How a path matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// The path itself.
    Exact,
    /// Whole segments at the beginning.
    Segments,
    /// Any beginning, as locations of nginx.
    Beginning,
}

/// A path of a route, and what it removes and adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathOf {
    /// The paths of the routes.
    pub paths: Vec<String>,
    /// What is removed from the beginning.
    pub strip: Option<String>,
    /// What is added.
    pub add: Option<String>,
    /// Whether case matters.
    pub is_exact_case: bool,
    /// The path without the slash at its end, which nginx redirects to it.
    pub bare: Option<String>,
    /// How it differs.
    pub difference: Option<String>,
}

/// The paths of a host without regular expressions.
///
/// # Errors
/// Why there is no such route.
pub fn plain(text: &str, matching: Matching) -> Result<PathOf, String> {
    let text = if text.is_empty() { "/" } else { text };
    let path = written(text)?;
    let bare = path.trim_end_matches('/');
    let paths = match matching {
        Matching::Exact => vec![path.clone()],
        Matching::Segments => vec![format!("{bare}/*")],
        Matching::Beginning => vec![format!("{path}*")],
    };
    let redirects = matching != Matching::Exact && path.ends_with('/') && !bare.is_empty();
    let bare = redirects.then(|| bare.to_owned());
    Ok(PathOf { paths, strip: None, add: None, is_exact_case: true, bare, difference: None })
}

/// The paths of a host with regular expressions: every path is one, and case does not matter.
///
/// # Errors
/// If it is none of the forms that have a route.
pub fn pattern(text: &str, matching: Matching, target: Option<&str>) -> Result<PathOf, String> {
    let no = || Err(format!("{text}: no regular expressions: write routes for its paths"));
    let text = text.strip_prefix('^').unwrap_or(text);
    // A prefix with the rest in a group.
    let groups = [
        ("(/|$)(.*)", "$2", true),
        ("(/|$)(.*)$", "$2", true),
        ("/?(.*)", "$1", true),
        ("/(.*)", "$1", true),
        ("/(.*)$", "$1", true),
        ("(/.*)", "$1", false),
        ("(/|$)", "", true),
    ];
    let found = groups.iter().find_map(|(end, group, is_behind_slash)| {
        Some((text.strip_suffix(end)?, *group, *is_behind_slash))
    });
    let (base, group) = match found {
        Some((base, group, is_behind_slash)) => (base, Some((group, is_behind_slash))),
        None => (text.strip_suffix(".*").unwrap_or(text), None),
    };
    if base.contains(['(', ')', '[', ']', '\\', '^', '$', '|', '?', '+', '*']) {
        return no();
    }
    let path = written(if base.is_empty() { "/" } else { base })?;
    let bare = path.trim_end_matches('/').to_owned();
    let mut made = PathOf {
        paths: vec![format!("{bare}/*")],
        strip: None,
        add: None,
        is_exact_case: false,
        bare: None,
        difference: beside(text, &bare, path.ends_with('/')),
    };
    let Some(target) = target else {
        if group.is_none() && !path.ends_with('/') {
            made.paths = vec![format!("{path}*")];
            made.difference = None;
        }
        return Ok(made);
    };
    match group {
        Some((group, is_behind_slash)) if !group.is_empty() => {
            let Some(start) = target.strip_suffix(group) else { return no() };
            let start = if is_behind_slash { start.strip_suffix('/') } else { Some(start) };
            let Some(start) = start.filter(|it| !it.contains('$')) else { return no() };
            made.strip = (!bare.is_empty()).then(|| bare.clone());
            if !start.is_empty() {
                made.add = Some(written(start)?.trim_end_matches('/').to_owned());
            }
            if made.strip == made.add {
                made.strip = None;
                made.add = None;
            }
            Ok(made)
        }
        // All requests get one path. With an exact path that is the same as here.
        _ if matching == Matching::Exact && !target.contains('$') => {
            let target = written(target)?.trim_end_matches('/').to_owned();
            let paths = vec![path.clone()];
            let strip = (!bare.is_empty()).then_some(bare);
            let add = (!target.is_empty()).then_some(target);
            let what =
                format!("nginx takes all paths that begin with {path}, and each gets this path");
            Ok(PathOf { paths, strip, add, difference: Some(what), ..made })
        }
        _ if target == path || target == bare => Ok(made),
        _ => Err(format!(
            "{text}: all of its paths become {target}: write rewrite, or a group as in (/|$)(.*)"
        )),
    }
}

/// How an expression differs from the whole segments that a route takes.
fn beside(text: &str, bare: &str, has_slash: bool) -> Option<String> {
    if bare.is_empty() {
        return None;
    }
    if text.ends_with("/?(.*)") {
        let what = "nginx also takes paths that go on without a slash after";
        return Some(format!("{what} {bare}; here they are those of another route"));
    }
    let needs_slash = ["/(.*)", "/(.*)$", "(/.*)"].iter().any(|end| text.ends_with(end));
    (needs_slash || has_slash)
        .then(|| format!("nginx does not take {bare} itself; here it is taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(made: Result<PathOf, String>) -> String {
        match made {
            Ok(it) => format!(
                "{} -{} +{}",
                it.paths.join(" "),
                it.strip.unwrap_or_default(),
                it.add.unwrap_or_default()
            ),
            Err(_) => "no".to_owned(),
        }
    }

    #[test]
    fn paths_are_translated() {
        use Matching::{Beginning, Exact, Segments};
        for (text, matching, is) in [
            ("/", Segments, "/* - +"),
            ("/a", Segments, "/a/* - +"),
            ("/a/", Segments, "/a/* - +"),
            ("/a", Exact, "/a - +"),
            ("/a", Beginning, "/a* - +"),
            ("", Segments, "/* - +"),
        ] {
            assert_eq!(shown(plain(text, matching)), is, "{text}");
        }
        for (text, matching, target, is) in [
            ("/a(/|$)(.*)", Beginning, Some("/$2"), "/a/* -/a +"),
            ("/a(/|$)(.*)", Beginning, Some("/b/$2"), "/a/* -/a +/b"),
            ("/(.*)", Beginning, Some("/$1"), "/* - +"),
            ("/a/(.*)", Segments, Some("/$1"), "/a/* -/a +"),
            ("/a/?(.*)", Segments, Some("/$1"), "/a/* -/a +"),
            ("/a", Segments, Some("/"), "no"),
            ("/a", Exact, Some("/"), "/a -/a +"),
            ("/", Segments, Some("/"), "/* - +"),
            ("/a/.*", Beginning, None, "/a/* - +"),
            ("/a[0-9]+", Beginning, None, "no"),
            ("/a|/b", Beginning, None, "no"),
            ("/x/(.*)/y", Beginning, Some("/$1"), "no"),
        ] {
            assert_eq!(shown(pattern(text, matching, target)), is, "{text} {target:?}");
        }
    }
}

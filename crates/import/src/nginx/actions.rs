//! What a location does with a request: an answer, a redirect, an upstream, or the old server.

use super::levels::Levels;
use super::syntax::Directive;
use super::upstreams::Target;
use super::values::{Piece, pieces};
use crate::out::Map;

/// Directives that serve a request in another way than by HTTP to an upstream.
const OTHERS: [&str; 13] = [
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "stub_status",
    "empty_gif",
    "mp4",
    "flv",
    "dav_methods",
    "content_by_lua_block",
    "content_by_lua_file",
    "js_content",
    "perl",
];
/// The statuses of a `return` that redirects.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
/// Directives that serve files.
const FILES: [&str; 5] = ["try_files", "alias", "root", "autoindex", "index"];

/// What a location does.
pub enum Action<'a> {
    /// A fixed answer or a redirect, as fields of a route.
    Answer {
        /// The directive.
        by: &'a Directive,
        /// `respond` or `redirect`.
        fields: Map,
        /// What is different.
        difference: Option<&'static str>,
    },
    /// An upstream.
    Pass {
        /// The directive.
        by: &'a Directive,
        /// The upstream.
        target: Target<'a>,
    },
    /// What is not taken, and why. None if the location says nothing.
    Rest {
        /// The directive.
        by: Option<&'a Directive>,
        /// Why it is not taken.
        why: String,
    },
    /// Nothing: nginx answers 404.
    Nothing,
}

impl<'a> Action<'a> {
    /// What a place does.
    pub fn of(levels: &Levels<'a>) -> Self {
        // A `return` of the server comes before any location, and one of a location before all else.
        if let Some(by) = levels.own("return") {
            return Self::answer(by, &levels.server_name());
        }
        for name in ["proxy_pass", "grpc_pass"] {
            let Some(by) = levels.own(name) else { continue };
            return match Target::parse(by.arg(0)) {
                Ok(target) => Self::Pass { by, target },
                Err(why) => Self::Rest { by: Some(by), why },
            };
        }
        let found = OTHERS.iter().find_map(|name| levels.own(name));
        let found = found.or_else(|| FILES.iter().find_map(|name| levels.setting(name)));
        match found {
            Some(by) => Self::Rest { by: Some(by), why: format!("{} is not served here", by.name) },
            None => Self::Nothing,
        }
    }

    /// The answer of a `return` in a server with this `$server_name`.
    fn answer(by: &'a Directive, server: &str) -> Self {
        let (status, text) = match by.arg(0).parse::<u16>() {
            Ok(status) => (status, by.args.get(1).map(String::as_str)),
            Err(_) => (302, Some(by.arg(0))),
        };
        let not = |why: &str| Self::Rest { by: Some(by), why: why.to_owned() };
        if REDIRECTS.contains(&status) {
            let Some(to) = text.map(|text| location(text, server)) else {
                return not("a redirect has no target");
            };
            let Ok(to) = to else { return not("the target has variables that are not known here") };
            let redirect = Map::default().with("to", to).with("status", u64::from(status));
            let fields = Map::default().with("redirect", redirect);
            let difference = text.filter(|it| it.starts_with(NAMED)).map(|_| KEPT);
            return Self::Answer { by, fields, difference };
        }
        let difference = match status {
            444 => Some("nginx closes the connection; here the answer is 404"),
            _ => None,
        };
        let status = if status == 444 { 404 } else { status };
        if !(200..600).contains(&status) {
            return not("there is no answer with this status here");
        }
        let mut respond = Map::default().with("status", u64::from(status));
        match text {
            Some(text) if pieces(text).iter().any(|piece| matches!(piece, Piece::Variable(_))) => {
                return not("the text has variables");
            }
            Some(text) if !text.is_empty() && ![204, 205, 304].contains(&status) => {
                respond.put("body", text.replace("${", "$${"));
            }
            _ => {}
        }
        let fields = Map::default().with("respond", respond);
        Self::Answer { by, fields, difference }
    }

    /// Whether nginx forwards requests of the place, so that it redirects its path without a slash.
    pub fn forwards(&self) -> bool {
        match self {
            Self::Pass { .. } => true,
            Self::Rest { by: Some(by), .. } => by.name.ends_with("_pass"),
            _ => false,
        }
    }

    /// Whether two places send requests to the same server.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pass { target, .. }, Self::Pass { target: other, .. }) => target == other,
            (Self::Rest { by, .. }, Self::Rest { by: other, .. }) => {
                let is_file =
                    |by: &Option<&Directive>| by.is_none_or(|by| FILES.contains(&&*by.name));
                is_file(by) && is_file(other)
            }
            (Self::Nothing, Self::Nothing) => true,
            _ => false,
        }
    }
}

/// Whether a `return` redirects. Without a status it does.
pub fn redirects(by: &Directive) -> bool {
    by.arg(0).parse::<u16>().map_or(true, |it| REDIRECTS.contains(&it))
}

/// The beginning of a target with the scheme of the request and the first name of the server.
const NAMED: &str = "$scheme://$server_name";
/// How such a target differs.
const KEPT: &str = "nginx redirects to the first name of the server; here the host is kept, because the \
                    scheme of the request is not known";

/// The target of a redirect, in a server with this `$server_name`.
fn location(text: &str, server: &str) -> Result<String, ()> {
    // The scheme of the request is not known here. A target without scheme and host keeps both.
    let same = ["$scheme://$host", "$scheme://$http_host", NAMED];
    let rest = same.iter().find_map(|prefix| text.strip_prefix(prefix));
    let rest = rest.filter(|rest| rest.starts_with('/') || rest.starts_with('$'));
    let mut to = String::new();
    for piece in pieces(rest.unwrap_or(text)) {
        push(piece, server, &mut to)?;
    }
    let is_target = ["/", "http://", "https://", "{path}"].iter().any(|it| to.starts_with(it));
    if is_target { Ok(to) } else { Err(()) }
}

fn push(piece: Piece<'_>, server: &str, to: &mut String) -> Result<(), ()> {
    match piece {
        Piece::Text(text) if text.contains(['{', '}']) => return Err(()),
        Piece::Text(text) => to.push_str(text),
        Piece::Variable("host" | "http_host") => to.push_str("{host}"),
        Piece::Variable("server_name") if is_host(server) => to.push_str(server),
        Piece::Variable("request_uri") => to.push_str("{path}{query}"),
        Piece::Variable("uri" | "document_uri") => to.push_str("{path}"),
        Piece::Variable("is_args") => to.push_str("{query}"),
        // It follows `$is_args`, which is the whole query here.
        Piece::Variable("args" | "query_string") if to.ends_with("{query}") => {}
        Piece::Variable(_) => return Err(()),
    }
    Ok(())
}

/// Whether the name of a server can be that of a request.
fn is_host(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    !name.is_empty() && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_redirects_are_translated() {
        for (text, is) in [
            ("https://$host$request_uri", "https://{host}{path}{query}"),
            ("$scheme://$host/new", "/new"),
            ("$scheme://$server_name/new", "/new"),
            ("https://$server_name$uri", "https://a.example{path}"),
            ("/new$is_args$args", "/new{query}"),
            ("https://example.org$uri", "https://example.org{path}"),
        ] {
            assert_eq!(location(text, "a.example").as_deref(), Ok(is), "{text}");
        }
        for text in [
            "https://$http_x",
            "$scheme://other/x",
            "x",
            "/a{b}",
            "/a?$args",
            "https://$server_name/",
        ] {
            assert_eq!(location(text, "_"), Err(()), "{text}");
        }
    }
}

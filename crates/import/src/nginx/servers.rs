//! The servers: their names, where they listen, and which of them a route can tell apart.

use std::collections::BTreeSet;

use super::syntax::Directive;
use super::values::has_variables;
use crate::notes::Notes;

/// A server.
pub struct Server<'a> {
    /// The directive.
    pub directive: &'a Directive,
    /// Its exact names.
    pub exact: Vec<String>,
    /// Its names with `*`.
    pub wild: Vec<String>,
    /// Whether it has requests with other names.
    pub is_default: bool,
    /// The addresses that it listens on.
    pub addresses: BTreeSet<String>,
    /// Whether it has TLS.
    pub has_tls: bool,
}

/// A `listen`.
pub struct Listen<'a> {
    /// The address here.
    pub address: String,
    /// Whether it has TLS.
    pub has_tls: bool,
    /// Whether its connections begin with the PROXY protocol.
    pub is_proxied: bool,
    is_default: bool,
    /// The directive, unless it is the default.
    pub by: Option<&'a Directive>,
}

impl<'a> Server<'a> {
    /// Reads the names and addresses of a server.
    pub fn new(directive: &'a Directive, notes: &mut Notes) -> Self {
        let listens = listens(directive);
        let mut server = Self {
            directive,
            exact: Vec::new(),
            wild: Vec::new(),
            is_default: listens.iter().any(|listen| listen.is_default),
            addresses: listens.iter().map(|listen| listen.address.clone()).collect(),
            has_tls: listens.iter().any(|listen| listen.has_tls),
        };
        for it in directive.inner().iter().filter(|it| it.name == "server_name") {
            for name in &it.args {
                server.name(&name.to_ascii_lowercase(), it, notes);
            }
        }
        server
    }

    fn name(&mut self, name: &str, it: &Directive, notes: &mut Notes) {
        let is_host = |text: &str| {
            !text.is_empty()
                && text.len() < 250
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && text.split('.').all(|label| !label.is_empty())
        };
        let what = match name {
            "" | "_" | "*" => "requests with other names".to_owned(),
            name if has_variables(name) || name.starts_with('~') => {
                let what = format!("{name}: no regular expressions or variables: name the hosts");
                notes.lost("server_name", it.place, what);
                return;
            }
            name => {
                let (inner, is_wild, is_exact) = match name.strip_prefix("*.") {
                    Some(inner) => (inner, true, false),
                    None => match name.strip_prefix('.') {
                        Some(inner) => (inner, true, true),
                        None => (name, false, true),
                    },
                };
                if !is_host(inner) || inner.parse::<std::net::Ipv4Addr>().is_ok() && is_wild {
                    let what = format!("{name}: such a name is no host here: name the hosts");
                    notes.lost("server_name", it.place, what);
                    return;
                }
                if is_exact && !self.exact.iter().any(|own| own == inner) {
                    self.exact.push(inner.to_owned());
                }
                if is_wild && !self.wild.iter().any(|own| own[2..] == *inner) {
                    self.wild.push(format!("*.{inner}"));
                }
                format!("hosts: {name}")
            }
        };
        notes.taken("server_name", it.place, what);
    }

    /// All of its names.
    pub fn names(&self) -> Vec<String> {
        self.exact.iter().chain(&self.wild).cloned().collect()
    }
}

/// The addresses of a server. Without one it is port 80.
pub fn listens(server: &Directive) -> Vec<Listen<'_>> {
    let own: Vec<Listen<'_>> = server
        .inner()
        .iter()
        .filter(|it| it.name == "listen")
        .filter_map(|it| {
            Some(Listen {
                address: address(it.arg(0))?,
                has_tls: it.has("ssl")
                    || server.inner().iter().any(|it| it.name == "ssl" && it.arg(0) == "on"),
                is_proxied: it.has("proxy_protocol"),
                is_default: it.has("default_server") || it.has("default"),
                by: Some(it),
            })
        })
        .collect();
    if !own.is_empty() {
        return own;
    }
    let address = "0.0.0.0:80".to_owned();
    vec![Listen { address, has_tls: false, is_proxied: false, is_default: false, by: None }]
}

/// An address as the gateway writes it. None if it cannot be read.
fn address(text: &str) -> Option<String> {
    if text.starts_with("unix:/") {
        return Some(text.to_owned());
    }
    let port = |text: &str| text.parse::<u16>().ok();
    if port(text).is_some() {
        return Some(format!("0.0.0.0:{text}"));
    }
    let (host, number) = match text.rsplit_once(':') {
        Some((host, number)) if port(number).is_some() => (host, number),
        _ => (text, "80"),
    };
    let host = match host {
        "*" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let parsed: std::net::IpAddr = bare.parse().ok()?;
    Some(std::net::SocketAddr::new(parsed, number.parse().ok()?).to_string())
}

/// The servers in the order of their names: those with exact names, then those with the longest
/// name with `*`, then the default.
pub fn ordered<'s, 'a>(servers: &[&'s Server<'a>]) -> Vec<(&'s Server<'a>, Option<Vec<String>>)> {
    let Some(default) = servers.iter().find(|it| it.is_default).or(servers.first()) else {
        return Vec::new();
    };
    if servers.len() == 1 {
        return vec![(default, None)];
    }
    let mut ordered = Vec::new();
    let has_wild = servers.iter().any(|it| !it.wild.is_empty());
    for server in servers {
        let is_last = std::ptr::eq(*server, *default);
        let names = if has_wild { server.exact.clone() } else { server.names() };
        // Requests with the names of the default reach it at the end, unless a name with `*` is
        // before it.
        if !names.is_empty() && (!is_last || has_wild) {
            ordered.push((*server, Some(names)));
        }
    }
    let mut wild: Vec<(&Server<'_>, &String)> = if has_wild {
        servers.iter().flat_map(|it| it.wild.iter().map(move |name| (*it, name))).collect()
    } else {
        Vec::new()
    };
    wild.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
    ordered.extend(wild.into_iter().map(|(it, name)| (it, Some(vec![name.clone()]))));
    ordered.push((default, None));
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, is) in [
            ("80", "0.0.0.0:80"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::]:443", "[::]:443"),
            ("*:81", "0.0.0.0:81"),
            ("10.0.0.1", "10.0.0.1:80"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(address(text).as_deref(), Some(is), "{text}");
        }
        assert_eq!(address("example.org:80"), None);
        assert_eq!(address("99999"), None);
    }
}

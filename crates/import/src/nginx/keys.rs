//! Keys of zones: variables, and maps from them to a key or to nothing.

use std::collections::HashMap;

use super::exemptions::exemptions;
use super::key::{Choice, Key};
use super::syntax::Directive;
use super::values::{Piece, has_variables, pieces};
use crate::out::{Map, Value};

/// What an address is in a server whose listener has the PROXY protocol, and that believes no proxy.
const CONNECTION: &str = "the address of the connection without set_real_ip_from, and here ip is the client of the \
                          PROXY protocol";

/// The maps of a configuration by the names of their variables.
#[derive(Debug, Default)]
pub struct Maps<'a> {
    all: HashMap<&'a str, &'a Directive>,
    /// Whether a server takes the address of a client from a field, and whether from the PROXY protocol.
    reads_field: bool,
    reads_protocol: bool,
    /// Whether a server believes a proxy at all.
    believes: bool,
    /// Whether a listener has the PROXY protocol.
    is_proxied: bool,
    /// Whether a server has such a listener and believes no proxy. Its clients have the address of the connection.
    sees_connections: bool,
}

impl<'a> Maps<'a> {
    /// The maps among these directives.
    pub fn of(directives: &'a [Directive]) -> Self {
        let maps = directives.iter().filter(|it| it.name == "map" || it.name == "geo");
        let all = maps.filter_map(|it| Some((it.args.last()?.strip_prefix('$')?, it))).collect();
        let mut maps = Self { all, ..Self::default() };
        maps.addresses(directives);
        maps
    }

    /// Reads which addresses clients have.
    fn addresses(&mut self, directives: &[Directive]) {
        let is_proxied = |it: &Directive| it.name == "listen" && it.has("proxy_protocol");
        let has = |level: &[Directive], name: &str| level.iter().any(|it| it.name == name);
        for it in directives {
            // A server that answers by `return` uses no address.
            self.sees_connections |= it.name == "server"
                && it.inner().iter().any(is_proxied)
                && !has(directives, "set_real_ip_from")
                && !has(it.inner(), "set_real_ip_from")
                && !has(it.inner(), "return");
            match &*it.name {
                "set_real_ip_from" => self.believes = true,
                "real_ip_header" if it.arg(0) == "proxy_protocol" => self.reads_protocol = true,
                "real_ip_header" => self.reads_field = true,
                "listen" => self.is_proxied |= it.has("proxy_protocol"),
                "server" | "location" => self.addresses(it.inner()),
                _ => {}
            }
        }
    }

    /// Why a variable is not the address of the client.
    pub fn unlike(&self, name: &str) -> Option<String> {
        let what = match name {
            "realip_remote_addr" if self.believes => {
                "the address of the connection, and here ip is the client that a proxy names"
            }
            "realip_remote_addr" if self.is_proxied => CONNECTION,
            "binary_remote_addr" | "remote_addr" if self.sees_connections => CONNECTION,
            "proxy_protocol_addr" if !self.is_proxied => {
                "empty without a listener with the PROXY protocol"
            }
            "proxy_protocol_addr"
                if self.believes && (self.reads_field || !self.reads_protocol) =>
            {
                "the client of the PROXY protocol, and here ip is the client that a field names"
            }
            _ => return None,
        };
        Some(format!("${name} is {what}"))
    }

    /// The directives that a variable is computed by: its map, and the maps that this reads.
    pub fn directives(&self, variable: &str) -> Vec<&'a Directive> {
        let mut found: Vec<&Directive> = Vec::new();
        let mut next = self.all.get(variable);
        while let Some(map) = next.filter(|map| !found.contains(map)) {
            found.push(map);
            next = map.arg(0).strip_prefix('$').and_then(|name| self.all.get(name));
        }
        found
    }

    /// Whether a text has this variable, in itself or by a map.
    pub fn has_variable(&self, text: &str, variable: &str) -> bool {
        let is_it = |text: &str| pieces(text).contains(&Piece::Variable(variable));
        let maps = pieces(text).into_iter().flat_map(|piece| match piece {
            Piece::Variable(name) => self.directives(name),
            Piece::Text(_) => Vec::new(),
        });
        is_it(text) || maps.flat_map(Directive::inner).any(|entry| is_it(entry.arg(0)))
    }

    /// The key of a zone, in a server with this `$server_name`. Without one, the variable is no key.
    ///
    /// # Errors
    /// Why there is no such key here.
    pub fn key(&self, text: &str, server: Option<&str>) -> Result<Key, String> {
        let all = known(text, server);
        let has_text = all.iter().any(|piece| matches!(piece, Piece::Text(_)));
        if let Some(why) = names(&all).iter().find_map(|name| self.unlike(name)) {
            return Err(why);
        }
        match names(&all)[..] {
            [] if !has_text => Ok(Key::default()),
            [] => Ok(Key::global()),
            [name] => match self.all.get(name) {
                Some(map) => self.mapped(map, server, has_text),
                None => single(name, has_text),
            },
            [..] => joined(&names(&all)),
        }
    }

    fn mapped(
        &self,
        map: &'a Directive,
        server: Option<&str>,
        has_text: bool,
    ) -> Result<Key, String> {
        let choice = self.choice(map, 0)?;
        let all = choice.entries.iter().map(|(_, value)| *value).chain([choice.other]);
        if has_text && all.clone().any(str::is_empty) {
            let what = "requests that its map gives no key share the key of the text beside it";
            return Err(format!("{what}: write a policy for them"));
        }
        let mut keys: Vec<&str> = all.filter(|value| !value.is_empty()).collect();
        keys.dedup();
        let [first, rest @ ..] = &keys[..] else {
            return Err("its map gives no key".to_owned());
        };
        if rest.iter().any(|key| key != first) {
            return Err("its map gives several keys: write a policy for each".to_owned());
        }
        if let Some(why) = names(&known(first, server)).iter().find_map(|it| self.unlike(it)) {
            return Err(why);
        }
        let mut key = match known(first, server)[..] {
            [Piece::Variable(name)] if !self.all.contains_key(name) => single(name, has_text)?,
            [Piece::Text(_)] => Key::global(),
            [] if has_text => Key::global(),
            [] => Key::default(),
            _ => return Err("its map gives a key of several parts".to_owned()),
        };
        exemptions(&choice, &mut key)?;
        let source = choice.source.strip_prefix('$').unwrap_or_default();
        match self.unlike(source).filter(|_| !key.exempt.is_empty()) {
            Some(why) => Err(format!("it has exemptions by an address, and {why}")),
            None => Ok(key),
        }
    }

    /// What a map gives, by the source of the map that it reads, if that is a map, too.
    fn choice(&self, map: &'a Directive, depth: usize) -> Result<Choice<'a>, String> {
        if depth > 8 {
            return Err("its maps read each other".to_owned());
        }
        let mut own = plain(map)?;
        let inner = own.source.strip_prefix('$').and_then(|name| self.all.get(name));
        let Some(inner) = inner else { return Ok(own) };
        if own.is_geo {
            return Err(format!("its geo reads {}, which is no address", own.source));
        }
        let mut inner = self.choice(inner, depth + 1)?;
        let mut values = inner.entries.iter().map(|(_, value)| *value).chain([inner.other]);
        if values.any(has_variables) {
            return Err("its map reads a map that gives variables".to_owned());
        }
        let own_of = |value: &str| {
            let mut entries = own.entries.iter();
            let found = entries.find(|(pattern, _)| pattern.eq_ignore_ascii_case(value));
            found.map_or(own.other, |it| it.1)
        };
        inner.entries.iter_mut().for_each(|(_, value)| *value = own_of(value));
        inner.other = own_of(inner.other);
        own.entries.clear();
        Ok(inner)
    }
}

/// A map or geo by itself.
fn plain(map: &Directive) -> Result<Choice<'_>, String> {
    let is_geo = map.name == "geo";
    let source = match (is_geo, map.args.len()) {
        (true, 1) => "$remote_addr",
        _ => map.arg(0),
    };
    let mut choice = Choice { source, is_geo, entries: Vec::new(), other: "" };
    for entry in map.inner() {
        match (&*entry.name, entry.args.len()) {
            ("default", 1) => choice.other = entry.arg(0),
            ("volatile", 0) => {}
            ("hostnames" | "ranges" | "proxy_recursive", 0) | ("delete" | "proxy", 1) => {
                return Err(format!("its {} has \"{}\"", map.name, entry.name));
            }
            (pattern, 1) if pattern.starts_with('~') => {
                return Err(format!("its {} has regular expressions", map.name));
            }
            (pattern, 1) => choice.entries.push((pattern, entry.arg(0))),
            _ => return Err(format!("an entry of its {} has not one value", map.name)),
        }
    }
    Ok(choice)
}

/// The pieces of a text, with the name of the server as a text.
fn known<'t>(text: &'t str, server: Option<&'t str>) -> Vec<Piece<'t>> {
    let fixed = |piece| match (piece, server) {
        (Piece::Variable("server_name"), Some(name)) => Piece::Text(name),
        (piece, _) => piece,
    };
    let mut all: Vec<Piece<'_>> = pieces(text).into_iter().map(fixed).collect();
    all.retain(|piece| *piece != Piece::Text(""));
    all
}

/// The variables among pieces.
fn names<'t>(pieces: &[Piece<'t>]) -> Vec<&'t str> {
    let name = |piece: &Piece<'t>| match piece {
        Piece::Variable(name) => Some(*name),
        Piece::Text(_) => None,
    };
    pieces.iter().filter_map(name).collect()
}

/// The key of one variable. With a text beside it the key is never empty: requests without the
/// variable share a counter.
fn single(name: &str, has_text: bool) -> Result<Key, String> {
    let (word, is_optional) = word(name)?;
    let value = match is_optional && has_text {
        true => Map::default().with("first", vec![&*word, "global"]).into(),
        false => Value::from(word),
    };
    let difference = without_queries(name).map(str::to_owned);
    let skips = is_optional && !has_text;
    Ok(Key { value: Some(value), skips, difference, ..Key::default() })
}

/// How the key of a variable differs that has the query.
fn without_queries(name: &str) -> Option<&'static str> {
    let what = "nginx counts each query apart; here all of a path count together";
    (name == "request_uri").then_some(what)
}

/// The key of several variables.
fn joined(names: &[&str]) -> Result<Key, String> {
    let words: Result<Vec<(String, bool)>, String> = names.iter().map(|name| word(name)).collect();
    let words = words?;
    let has_optional = words.iter().any(|(_, is_optional)| *is_optional);
    let mut list: Vec<String> = words.into_iter().map(|(word, _)| word).collect();
    list.sort_unstable();
    list.dedup();
    let words = list.into_iter().map(Value::from).collect();
    let value = Map::default().with("all", Value::List(words)).into();
    let what = "nginx joins the parts that are there; here a request without one of them counts by \
                its address";
    let queries = names.iter().find_map(|name| without_queries(name));
    let differences: Vec<&str> = has_optional.then_some(what).into_iter().chain(queries).collect();
    let difference = (!differences.is_empty()).then(|| differences.join("; "));
    Ok(Key { value: Some(value), difference, ..Key::default() })
}

/// The word of a variable here, and whether a request may lack it.
fn word(name: &str) -> Result<(String, bool), String> {
    let fixed = match name {
        "binary_remote_addr" | "remote_addr" | "realip_remote_addr" | "proxy_protocol_addr" => "ip",
        "host" | "http_host" => "host",
        "uri" | "request_uri" | "document_uri" => "path",
        "request_method" => "method",
        "ssl_client_s_dn" | "ssl_client_s_dn_legacy" => {
            return Ok(("tls:subject".to_owned(), true));
        }
        _ => "",
    };
    if !fixed.is_empty() {
        return Ok((fixed.to_owned(), false));
    }
    for (prefix, form) in [("http_", "header"), ("cookie_", "cookie"), ("arg_", "query")] {
        if let Some(own) = name.strip_prefix(prefix).filter(|own| !own.is_empty()) {
            let own = if form == "header" { own.replace('_', "-") } else { own.to_owned() };
            return Ok((format!("{form}:{own}"), true));
        }
    }
    Err(format!("${name} is no key here"))
}

#[cfg(test)]
mod tests {
    use super::super::syntax::parse;
    use super::*;
    use crate::files::Source;
    use crate::out::flow;

    fn key(text: &str, maps: &str) -> Result<String, String> {
        let directives = parse(&Source { file: 0, text: maps.to_owned() }, 0).unwrap();
        let key = Maps::of(&directives).key(text, Some("a.example"))?;
        let skips = if key.skips { " skip" } else { "" };
        Ok(format!("{}{skips} {}", flow(&key.value.unwrap()), flow(&key.exempt.into())))
    }

    #[test]
    fn variables_are_keys() {
        for (text, is) in [
            ("$binary_remote_addr", "ip {}"),
            ("$http_x_api_key", "\"header:x-api-key\" skip {}"),
            ("$cookie_sid", "\"cookie:sid\" skip {}"),
            ("all", "global {}"),
            ("$binary_remote_addr$uri", "{ all: [ip, path] } {}"),
            ("${host}-$http_x", "{ all: [\"header:x\", host] } {}"),
            ("v1:$http_x", "{ first: [\"header:x\", global] } {}"),
            ("v1:$remote_addr", "ip {}"),
            ("$server_name", "global {}"),
            ("$server_name$http_x", "{ first: [\"header:x\", global] } {}"),
            ("$server_name$host$uri", "{ all: [host, path] } {}"),
        ] {
            assert_eq!(key(text, "").unwrap(), is, "{text}");
        }
        assert!(key("$body_bytes_sent", "").is_err());
        assert!(Maps::default().key("$server_name", None).is_err());
        for text in ["", "$server_name", "${server_name}${server_name}"] {
            assert!(Maps::default().key(text, Some("")).unwrap().value.is_none(), "{text}");
        }
        let key = Maps::default().key("$server_name$http_x", Some("")).unwrap();
        assert_eq!(key.value, Some("header:x".into()));
        assert!(key.skips);
    }

    /// `ip` is the address of the client, also behind a proxy.
    #[test]
    fn the_address_of_the_connection_is_that_of_the_client_without_proxies() {
        let believes = "server { set_real_ip_from 10.0.0.1; }";
        let proxied = "server { listen 80 proxy_protocol; }";
        let by_protocol = "server { listen 80 proxy_protocol; set_real_ip_from 10.0.0.1; \
                           real_ip_header proxy_protocol; }";
        let by_field = "server { listen 80 proxy_protocol; set_real_ip_from 10.0.0.1; }";
        assert!(key("$realip_remote_addr", believes).is_err());
        assert!(key("$realip_remote_addr$uri", believes).is_err());
        let map = format!("map $http_a $k {{ default $realip_remote_addr; }} {believes}");
        assert!(key("$k", &map).is_err());
        for config in [proxied, by_protocol] {
            assert_eq!(key("$proxy_protocol_addr", config).unwrap(), "ip {}", "{config}");
        }
        for config in [believes, by_field] {
            assert!(key("$proxy_protocol_addr", config).is_err(), "{config}");
        }
    }

    /// Regression: the address of a balancer with the PROXY protocol, which all clients share without
    /// set_real_ip_from, became the address of each client.
    #[test]
    fn without_proxies_that_are_believed_all_clients_of_the_proxy_protocol_have_one_address() {
        let balanced = "server { listen 80 proxy_protocol; }";
        for name in ["realip_remote_addr", "remote_addr", "binary_remote_addr"] {
            assert_eq!(key(&format!("${name}"), "server { listen 80; }").unwrap(), "ip {}");
            assert!(key(&format!("${name}"), balanced).is_err(), "{name}");
            assert!(key(&format!("${name}$uri"), balanced).is_err(), "{name}");
            let other = format!("server {{ set_real_ip_from 10.0.0.1; }} {balanced}");
            assert!(key(&format!("${name}"), &other).is_err(), "{name}");
        }
        let geo = "geo $g { default 1; 10.0.0.0/8 0; } map $g $k { 0 ''; 1 $proxy_protocol_addr; }";
        assert!(key("$k", &format!("{geo} {balanced}")).is_err());
        let believing = "set_real_ip_from 10.0.0.1; real_ip_header proxy_protocol;";
        assert!(key("$k", &format!("{geo} {balanced} {believing}")).is_ok());
        for config in [
            format!("{balanced} {believing}"),
            format!("server {{ listen 80 proxy_protocol; {believing} }}"),
            "server { listen 80 proxy_protocol; return 301 https://$host; }".to_owned(),
            "server { listen 80; } server { listen 81; }".to_owned(),
        ] {
            assert_eq!(key("$remote_addr", &config).unwrap(), "ip {}", "{config}");
        }
    }

    #[test]
    fn a_path_without_its_query_is_a_difference() {
        for text in ["$request_uri", "$remote_addr$request_uri", "$http_a$request_uri"] {
            let key = Maps::default().key(text, None).unwrap();
            assert!(key.difference.unwrap().contains("nginx counts each query apart"), "{text}");
        }
        assert_eq!(Maps::default().key("$remote_addr$uri", None).unwrap().difference, None);
    }

    #[test]
    fn the_variables_of_a_text_are_found_in_maps() {
        let maps = "map $a $k { default $b; x $server_name; } map $k $l { default $k; }";
        let directives = parse(&Source { file: 0, text: maps.to_owned() }, 0).unwrap();
        let maps = Maps::of(&directives);
        for text in ["$server_name", "x${server_name}", "$k", "$remote_addr$l"] {
            assert!(maps.has_variable(text, "server_name"), "{text}");
        }
        assert!(!maps.has_variable("$remote_addr$server_names", "server_name"));
    }

    #[test]
    fn maps_to_nothing_are_exemptions() {
        let geo = "geo $g { default 1; 10.0.0.0/8 0; 192.168.1.1 0; } \
                   map $g $k { 0 \"\"; 1 $binary_remote_addr; }";
        assert_eq!(key("$k", geo).unwrap(), "ip { ips: [10.0.0.0/8, \"192.168.1.1\"] }");
        let header = "map $http_x_internal $k { default $remote_addr; yes ''; }";
        assert_eq!(key("$k", header).unwrap(), "ip { headers: { x-internal: \"yes\" } }");
        let method = "map $request_method $k { default ''; POST $remote_addr; }";
        assert_eq!(
            key("$k", method).unwrap(),
            "ip { methods: [GET, HEAD, PUT, PATCH, DELETE, OPTIONS] }"
        );
    }

    #[test]
    fn a_text_beside_a_map_leaves_no_exemption() {
        let all = "map $http_a $k { default $http_x; }";
        assert_eq!(key("v1:$k", all).unwrap(), "{ first: [\"header:x\", global] } {}");
        for maps in [
            "map $http_a $k { default $remote_addr; yes ''; }",
            "map $request_method $k { default ''; POST $remote_addr; }",
        ] {
            assert!(key("$k", maps).is_ok(), "{maps}");
            assert!(key("v1:$k", maps).is_err(), "{maps}");
        }
    }

    #[test]
    fn maps_without_a_counterpart_are_told() {
        for maps in [
            "map $http_user_agent $k { default ''; ~bot $remote_addr; }",
            "map $http_a $k { default $remote_addr; x $http_b; }",
            "map $k $k { default $k; a ''; }",
            "map $http_a $k { default ''; x $remote_addr; }",
            "geo $g { default 0; 10.0.0.0/8 1; } map $g $k { 1 $remote_addr; }",
            "geo $g { 10.0.0.0/8 0; 10.1.0.0/16 1; default 1; } map $g $k { 0 ''; 1 $remote_addr; }",
            "geo $g { ranges; default 1; } map $g $k { 0 ''; 1 $remote_addr; }",
        ] {
            assert!(key("$k", maps).is_err(), "{maps}");
        }
    }
}

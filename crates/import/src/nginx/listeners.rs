//! Where the servers listen.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::actions::redirects;
use super::levels::Levels;
use super::servers::{Server, listens};
use super::syntax::Directive;
use crate::files::Files;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;

/// The servers whose routes can be told apart. A route here does not know the listener.
pub fn served<'s, 'a>(servers: &'s [Server<'a>], notes: &mut Notes) -> Vec<&'s Server<'a>> {
    let is_redirect = |server: &&Server<'_>| {
        let levels = Levels::default().with(server.directive.inner());
        levels.own("return").is_some_and(redirects)
    };
    let all: Vec<&Server<'_>> = servers.iter().collect();
    let (redirects, mains): (Vec<_>, Vec<_>) = all.into_iter().partition(is_redirect);
    if mains.is_empty() {
        return redirects;
    }
    let mut served: Vec<&Server<'_>> = Vec::new();
    let mut taken: HashMap<String, &BTreeSet<String>> = HashMap::new();
    for server in mains {
        let mut names = server.names();
        if names.is_empty() {
            names.push(String::new());
        }
        let differs = |it: &&&BTreeSet<String>| ***it != server.addresses;
        match names.iter().find_map(|name| taken.get(name).filter(differs)) {
            Some(_) => {
                let what = "another server has its names at another address, and routes do not know \
                            the address: run a second gateway for it";
                notes.lost("server", server.directive.place, what);
            }
            None => {
                served.push(server);
                for name in names {
                    taken.entry(name).or_insert(&server.addresses);
                }
            }
        }
    }
    let addresses: BTreeSet<String> = served.iter().flat_map(|it| &it.addresses).cloned().collect();
    for server in redirects {
        if server.addresses.iter().any(|address| addresses.contains(address)) {
            served.push(server);
            continue;
        }
        let own: Vec<&str> = server.addresses.iter().map(String::as_str).collect();
        let what = format!(
            "a redirect for {} alone: routes do not know the address; run a second gateway with it",
            own.join(", ")
        );
        notes.lost("server", server.directive.place, what);
    }
    let differs = served.iter().any(|it| it.addresses != served[0].addresses);
    if differs {
        let what = "servers have different addresses; here each route is served at all addresses";
        notes.different("server", served[0].directive.place, what);
    }
    served
}

/// The section `listeners`.
pub fn write(servers: &[&Server<'_>], files: &Files, plan: &mut Plan, notes: &mut Notes) {
    let mut written: HashMap<String, bool> = HashMap::new();
    for server in servers {
        for listen in listens(server.directive) {
            let place = listen.by.map_or(server.directive.place, |it| it.place);
            if let Some(has_tls) = written.get(&listen.address) {
                if *has_tls == listen.has_tls {
                    notes.taken("listen", place, format!("listener {}", listen.address));
                } else {
                    notes.lost(
                        "listen",
                        place,
                        "the address has TLS in one server and not in another",
                    );
                }
                continue;
            }
            written.insert(listen.address.clone(), listen.has_tls);
            let mut address = listen.address.clone();
            let mut listener = Map::default();
            if listen.has_tls {
                match certificates(servers, &listen.address, files, notes) {
                    Some(tls) => listener.put("tls", tls),
                    // Without certificates no other machine may reach it.
                    None => address = loopback(&address),
                }
            }
            if listen.is_proxied {
                listener.put("proxy_protocol", true);
            }
            notes.taken("listen", place, format!("listener {address}"));
            let mut whole = Map::default().with("address", address);
            whole.0.extend(listener.0);
            plan.listeners.push((place, whole));
        }
        for it in server.directive.inner().iter().filter(|it| it.name == "listen") {
            if !notes.knows("listen", it.place) {
                notes.lost(
                    "listen",
                    it.place,
                    "the address cannot be read: write an address and a port",
                );
            }
        }
    }
}

/// The same port, for this machine only.
fn loopback(address: &str) -> String {
    match address.rsplit_once(':') {
        Some((_, port)) if !address.starts_with("unix:") => format!("127.0.0.1:{port}"),
        _ => address.to_owned(),
    }
}

/// The certificates of all servers at an address. None if a file is not here.
fn certificates(
    servers: &[&Server<'_>],
    address: &str,
    files: &Files,
    notes: &mut Notes,
) -> Option<Map> {
    let mut list = Vec::new();
    let mut is_whole = true;
    let mut min_version = None;
    for server in servers.iter().filter(|it| it.has_tls && it.addresses.contains(address)) {
        let inner = server.directive.inner();
        let of = |name: &'static str| inner.iter().filter(move |it| it.name == name);
        for (cert, key) in of("ssl_certificate").zip(of("ssl_certificate_key")) {
            let path = |it: &Directive| files.directory(0).join(it.arg(0)).display().to_string();
            if !files.has(Path::new(cert.arg(0))) || !files.has(Path::new(key.arg(0))) {
                is_whole = false;
                let what = format!(
                    "{} or its key is not on this machine: the listener is {} without TLS; copy the \
                     files, and write tls",
                    cert.arg(0),
                    loopback(address)
                );
                notes.lost("ssl_certificate", cert.place, what);
                continue;
            }
            notes.taken("ssl_certificate", cert.place, "listeners[].tls");
            notes.taken("ssl_certificate_key", key.place, "listeners[].tls");
            let pair = Map::default().with("cert", path(cert)).with("key", path(key));
            if !list.contains(&Value::from(pair.clone())) {
                list.push(pair.into());
            }
        }
        for it in of("ssl_protocols") {
            let is_newest = it.args.iter().all(|arg| arg == "TLSv1.3");
            if is_newest {
                min_version = Some("1.3");
            }
            notes.taken(
                "ssl_protocols",
                it.place,
                if is_newest { "TLS 1.3" } else { "TLS 1.2 and 1.3" },
            );
        }
    }
    if list.is_empty() || !is_whole {
        return None;
    }
    let mut tls = Map::default().with("certificates", Value::List(list));
    if let Some(version) = min_version {
        tls.put("min_version", version);
    }
    Some(tls)
}

//! `tollgate run`: with a file, or without one; and what a user at a terminal is shown.
//!
//! A user at a terminal has a page, also without a section `admin`: it is on the loopback, and needs a
//! random token that is valid as long as the process runs. The link with the token is printed on
//! the terminal alone, and never in a log.

use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::args::RunArgs;
use super::console::{load, say};
use super::failure::Failure;
use super::paint::{FAINT, STRONG, paint};
use crate::app::{self, ConfigFiles, Started};
use crate::config::{self, Compiled, Config, NamedFile};
use crate::server::ListenAddress;

/// The port of the page, if it is free.
const PAGE_PORT: u16 = 9901;

/// Runs the gateway until it is stopped.
///
/// # Errors
/// If the configuration cannot be used, or the gateway cannot start.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let (mut config, files) = match args.without_file()? {
        Some(config) => (config, None),
        None => {
            let file = args.config.path();
            let Compiled { config, files, document, stamp, .. } = load(file)?;
            let file = NamedFile { path: file.to_owned(), stamp };
            let files = ConfigFiles { file, others: files, document, given: None };
            // What came from standard input cannot be read again.
            (config, Some(files).filter(|it| it.file.path != Path::new("-")))
        }
    };
    if !io::stderr().is_terminal() {
        return Ok(app::run(config, files, |_| ())?);
    }
    let has_page = config.admin.is_none() && args.has_page();
    let token = has_page.then(token);
    if let Some(token) = &token {
        config.admin = Some(config::temporary_admin(page_address(&config), token));
    }
    let request = Request::of(&config);
    Ok(app::run(config, files, move |started| greet(started, token.as_deref(), request.as_ref()))?)
}

/// 32 random bytes as text.
fn token() -> String {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).expect("the system has random bytes");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Where the page is. Listeners share a port with those of other processes that allow it, so a
/// socket that does not is opened first: the page of another gateway is not shared.
fn page_address(config: &Config) -> SocketAddr {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let is_wanted = config
        .listeners
        .iter()
        .any(|it| it.address.tcp().is_some_and(|address| address.port() == PAGE_PORT));
    let is_free = !is_wanted && TcpListener::bind(at(PAGE_PORT)).is_ok();
    at(if is_free { PAGE_PORT } else { 0 })
}

/// A request for the first route that has a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    is_encrypted: bool,
    host: Option<String>,
    path: String,
}

impl Request {
    fn of(config: &Config) -> Option<Self> {
        let limited = config.routes.iter().find(|it| !it.rule.policies.is_empty());
        let listener = config.listeners.first()?;
        let route = limited.or(config.routes.first())?;
        let host = route.written.hosts.first().map(|host| host.replacen('*', "www", 1));
        let path = &route.written.path;
        let segment = |it: &str| if it.starts_with('{') { "1".to_owned() } else { it.to_owned() };
        let path = path.trim_end_matches('*').split('/').map(segment).collect::<Vec<_>>().join("/");
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        Some(Self { is_encrypted: listener.tls.is_some(), host, path })
    }

    /// The command of a client on this machine.
    fn command(&self, address: &ListenAddress) -> String {
        let host = self.host.as_ref().map(|it| format!(" -H 'Host: {it}'")).unwrap_or_default();
        let path = &self.path;
        match (address.reachable(), self.is_encrypted) {
            (ListenAddress::Tcp(address), true) => {
                format!("curl -ik{host} https://{address}{path}")
            }
            (ListenAddress::Tcp(address), false) => format!("curl -i{host} http://{address}{path}"),
            (ListenAddress::Unix(socket), _) => {
                format!("curl -i{host} --unix-socket {} http://localhost{path}", socket.display())
            }
        }
    }
}

/// Shows a user at a terminal what to do now.
fn greet(started: &Started, token: Option<&str>, request: Option<&Request>) {
    let mut lines = Vec::new();
    let mut line = |name: &str, text: &str| {
        lines.push(format!("  {}{}", paint(FAINT, format!("{name:<6}")), paint(STRONG, text)));
    };
    if let (Some(ListenAddress::Tcp(page)), Some(token)) = (&started.admin, token) {
        line("page:", &format!("http://{page}/#token={token}"));
    }
    if let (Some(address), Some(request)) = (&started.gateway, request) {
        line("try:", &request.command(address));
    }
    if !lines.is_empty() {
        say(&format!("\n{}\n", lines.join("\n")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(yaml: &str) -> Option<String> {
        let config = Config::parse(yaml, "gateway.yaml", &|_| None).unwrap().config;
        let address = config.listeners.first()?.address.clone();
        Request::of(&config).map(|it| it.command(&address))
    }

    fn with_route(address: &str, route: &str) -> Option<String> {
        command(&format!(
            "listeners: [{{ address: \"{address}\" }}]\nroutes: [{{ {route}, respond: {{ body: ok }} }}]\n"
        ))
    }

    #[test]
    fn a_request_for_a_route_is_shown() {
        for (address, route, shown) in [
            ("0.0.0.0:8080", "path: \"/*\"", "curl -i http://127.0.0.1:8080/"),
            ("127.0.0.1:1", "path: \"/v1/orders/{id}\"", "curl -i http://127.0.0.1:1/v1/orders/1"),
            (
                "[::]:1",
                "path: /a, hosts: [\"*.a.test\"]",
                "curl -i -H 'Host: www.a.test' http://[::1]:1/a",
            ),
            ("unix:/run/a", "path: \"/*\"", "curl -i --unix-socket /run/a http://localhost/"),
        ] {
            assert_eq!(with_route(address, route).as_deref(), Some(shown));
        }
    }

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let one = token();
        let other = token();
        assert!(one != other && one.len() == 43 && one.bytes().all(|it| it.is_ascii_graphic()));
    }
}

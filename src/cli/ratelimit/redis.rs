//! The variables of Redis, and the section `store`.

use super::environment::Environment;
use super::forms::credentials;
use super::yaml::{Text, flow, quoted};

/// The servers that a value of REDIS_URL names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Servers {
    /// `host:port` of each, or the path of a socket.
    hosts: Vec<String>,
    /// The name of the master that Sentinels know.
    master: Option<String>,
    /// `user:password` in the URL.
    credentials: Option<String>,
    has_tls: bool,
}

impl Servers {
    /// The servers of `host:port`, `redis://user:password@host:port/0` and lists of them.
    fn read(text: &str, is_sentinel: bool) -> Self {
        let mut servers = Self::default();
        let mut items = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        if is_sentinel {
            servers.master = items.next().map(str::to_owned);
        }
        for item in items {
            let rest = match item.split_once("://") {
                Some((scheme, rest)) => {
                    servers.has_tls |= scheme == "rediss";
                    rest
                }
                None => item,
            };
            let host = match rest.rsplit_once('@') {
                Some((credentials, host)) => {
                    servers.credentials.get_or_insert_with(|| credentials.to_owned());
                    host
                }
                None => rest,
            };
            servers.hosts.push(host.to_owned());
        }
        servers
    }

    fn url(&self, kind: &str, has_tls: bool) -> String {
        let hosts = self.hosts.join(",");
        let scheme = if has_tls { "rediss" } else { "redis" };
        match kind {
            "unix" => format!("redis+unix://{hosts}"),
            "cluster" => format!("{scheme}+cluster://{hosts}"),
            "sentinel" => {
                format!("{scheme}+sentinel://{hosts}/{}", self.master.as_deref().unwrap_or(""))
            }
            _ => format!("{scheme}://{hosts}"),
        }
    }
}

/// Writes the section, or notes that the counters are in memory.
pub fn write(env: &mut Environment, yaml: &mut Text) {
    match env.word("BACKEND_TYPE", &["redis", "memcache"]).as_deref() {
        Some("memcache") => {
            env.mistake("BACKEND_TYPE=memcache is not supported: use Redis, or leave it out");
        }
        _ => write_redis(env, yaml),
    }
}

fn write_redis(env: &mut Environment, yaml: &mut Text) {
    let kinds = ["single", "cluster", "sentinel"];
    let kind = env.word("REDIS_TYPE", &kinds).unwrap_or_else(|| "single".to_owned());
    let socket = env.word("REDIS_SOCKET_TYPE", &["tcp", "unix"]);
    let Some(url) = env.text("REDIS_URL") else {
        env.note("there is no REDIS_URL: this node counts in memory, and alone");
        return;
    };
    let servers = Servers::read(&url, kind == "sentinel");
    if servers.hosts.is_empty() {
        env.mistake(
            "REDIS_URL names no server: write host:port, or for Sentinels master,host:port",
        );
        return;
    }
    let is_socket = url.starts_with('/') || socket.as_deref() == Some("unix");
    let kind = if is_socket && kind == "single" { "unix" } else { &*kind };
    let has_tls = env.is_set("REDIS_TLS") || servers.has_tls;
    yaml.map(0, "store");
    yaml.map(1, "redis");
    yaml.text(2, "url", &servers.url(kind, has_tls));
    let auth = env.text("REDIS_AUTH").map(|auth| ("REDIS_AUTH", auth));
    let in_url = servers.credentials.map(|it| ("REDIS_URL", it));
    if let Some((variable, auth)) = auth.or(in_url) {
        write_credentials(env, yaml, 2, variable, &auth);
    }
    if let (Some(auth), "sentinel") = (env.text("REDIS_SENTINEL_AUTH"), kind) {
        yaml.map(2, "sentinel");
        write_credentials(env, yaml, 3, "REDIS_SENTINEL_AUTH", &auth);
    }
    if has_tls {
        write_tls(env, yaml);
    }
    if let Some(prefix) = env.text("CACHE_KEY_PREFIX") {
        yaml.field(2, "prefix", &quoted(&prefix));
    }
}

/// Writes the user and the password of a variable, with the password as a reference.
fn write_credentials(
    env: &mut Environment,
    yaml: &mut Text,
    depth: usize,
    variable: &str,
    auth: &str,
) {
    let (user, password) = credentials(auth);
    if let Some(user) = user.filter(|it| !it.is_empty()) {
        yaml.text(depth, "username", user);
    }
    let is_whole = env.text(variable).as_deref() == Some(password);
    let name = if is_whole { variable.to_owned() } else { format!("{variable}_PASSWORD") };
    let reference = env.secret(&name, password);
    yaml.secret(depth, "password", &reference);
}

fn write_tls(env: &mut Environment, yaml: &mut Text) {
    if env.is_set("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
        env.note("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION has no effect: names are verified");
    }
    let fields = [
        ("ca", env.text("REDIS_TLS_CACERT")),
        ("cert", env.text("REDIS_TLS_CLIENT_CERT")),
        ("key", env.text("REDIS_TLS_CLIENT_KEY")),
    ];
    let given: Vec<(&str, &str)> =
        fields.iter().filter_map(|(name, file)| Some((*name, file.as_deref()?))).collect();
    if !given.is_empty() {
        yaml.field(2, "tls", &flow(given));
    }
}

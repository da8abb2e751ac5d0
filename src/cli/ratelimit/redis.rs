//! The variables of Redis, and the section `store`.

use tollgate_redis::percent_decoded;

use super::environment::Environment;
use super::forms::credentials;
use super::yaml::{Text, flow, quoted};

/// A user and a password.
struct Login {
    user: Option<String>,
    password: String,
}

impl Login {
    /// That of `user:password`, as it is.
    fn plain(text: &str) -> Self {
        let (user, password) = credentials(text);
        Self { user: user.map(str::to_owned), password: password.to_owned() }
    }

    /// That of a URL, in which signs are written as `%` and two digits. None if a `%` is not.
    fn of_url(text: &str) -> Option<Self> {
        let (user, password) = credentials(text);
        let user = match user {
            Some(user) => Some(percent_decoded(user)?),
            None => None,
        };
        Some(Self { user, password: percent_decoded(password)? })
    }
}

/// What the scheme of a URL says of its servers. Those of `store.redis.url` are known, too.
#[derive(Clone, Copy)]
struct Scheme {
    has_tls: bool,
    /// None: REDIS_TYPE says it.
    kind: Option<&'static str>,
}

impl Scheme {
    /// None: it is not a scheme of Redis. Schemes are the same in capitals (RFC 3986, section 3.1).
    fn of(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        if text == "unix" {
            return Some(Self { has_tls: false, kind: Some("unix") });
        }
        let (base, kind) =
            text.split_once('+').map_or((&*text, None), |(it, kind)| (it, Some(kind)));
        let has_tls = match base {
            "redis" => false,
            "rediss" => true,
            _ => return None,
        };
        let kind = match (kind, has_tls) {
            (None, _) => None,
            (Some("cluster"), _) => Some("cluster"),
            (Some("sentinel"), _) => Some("sentinel"),
            (Some("unix"), false) => Some("unix"),
            _ => return None,
        };
        Some(Self { has_tls, kind })
    }
}

const ENCODING: &str =
    "the user or the password in REDIS_URL has a % without a code: write %25 for %";
const SCHEMES: &str = "REDIS_URL has another scheme than those of Redis: write redis://, rediss:// \
                       with TLS, redis+cluster://, redis+sentinel:// or redis+unix://";
const FIRST: &str = "a scheme with the type of the servers, such as redis+cluster://, is written \
                     once, at the beginning of REDIS_URL";
const MASTER: &str = "REDIS_URL for Sentinels begins with the name of the master: write \
                      master,host:port or redis+sentinel://host:port/master";

/// The servers that a value of REDIS_URL names.
#[derive(Default)]
struct Servers {
    /// `host:port` of each, or the path of a socket.
    hosts: Vec<String>,
    /// The name of the master that Sentinels know.
    master: Option<String>,
    /// The first user and password in the URLs.
    login: Option<Login>,
    /// What is wrong with the value.
    fault: Option<&'static str>,
    has_tls: bool,
    /// Their type, if a scheme says it.
    kind: Option<&'static str>,
}

impl Servers {
    /// The servers of `host:port`, `redis://user:password@host:port/0` and lists of them, or of a
    /// URL of `store.redis.url`.
    fn read(text: &str, is_sentinel: bool) -> Self {
        let mut servers = Self::default();
        let mut items = text.split(',').map(str::trim).filter(|it| !it.is_empty()).peekable();
        let scheme = items.peek().and_then(|first| first.split_once("://"));
        servers.kind = scheme.and_then(|(scheme, _)| Scheme::of(scheme)?.kind);
        if is_sentinel && servers.kind.is_none() {
            servers.master = items.next().map(str::to_owned);
            servers.fault = scheme.map(|_| MASTER);
        }
        for (index, item) in items.enumerate() {
            let url = item.split_once("://");
            let rest = url.map_or(item, |(_, rest)| rest);
            if let Some((scheme, _)) = url {
                match Scheme::of(scheme) {
                    None => servers.fault = servers.fault.or(Some(SCHEMES)),
                    Some(it) if it.kind.is_some() && (index > 0 || servers.kind.is_none()) => {
                        servers.fault = servers.fault.or(Some(FIRST));
                    }
                    Some(scheme) => servers.has_tls |= scheme.has_tls,
                }
            }
            let Some((login, host)) = rest.rsplit_once('@') else {
                servers.hosts.push(rest.to_owned());
                continue;
            };
            // envoyproxy/ratelimit decodes what has a scheme, and takes all else as it is.
            let login =
                if url.is_some() { Login::of_url(login) } else { Some(Login::plain(login)) };
            if login.is_none() {
                servers.fault = servers.fault.or(Some(ENCODING));
            }
            servers.login = servers.login.or(login);
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
            "sentinel" => match &self.master {
                Some(master) => format!("{scheme}+sentinel://{hosts}/{master}"),
                None => format!("{scheme}+sentinel://{hosts}"),
            },
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
    let stated = env.word("REDIS_TYPE", &kinds);
    let socket = env.word("REDIS_SOCKET_TYPE", &["tcp", "unix"]);
    let Some(url) = env.text("REDIS_URL") else {
        env.note("there is no REDIS_URL: this node counts in memory, and alone");
        return;
    };
    let servers = Servers::read(&url, stated.as_deref() == Some("sentinel"));
    if servers.hosts.is_empty() {
        env.mistake(
            "REDIS_URL names no server: write host:port, or for Sentinels master,host:port",
        );
        return;
    }
    if let Some(fault) = servers.fault {
        env.mistake(fault);
        return;
    }
    let named = servers.kind.map(|kind| if kind == "unix" { "single" } else { kind });
    if let (Some(stated), Some(named)) = (stated.as_deref(), named)
        && stated != named
    {
        env.mistake(format!(
            "REDIS_TYPE is {stated}, and the scheme of REDIS_URL means {named}: leave REDIS_TYPE out"
        ));
        return;
    }
    let is_socket = url.starts_with('/') || socket.as_deref() == Some("unix");
    let kind = servers.kind.or(stated.as_deref()).unwrap_or("single");
    let kind = if is_socket && kind == "single" { "unix" } else { kind };
    let has_tls = env.is_set("REDIS_TLS") || servers.has_tls;
    yaml.map(0, "store");
    yaml.map(1, "redis");
    yaml.text(2, "url", &servers.url(kind, has_tls));
    match (env.text("REDIS_AUTH"), &servers.login) {
        (Some(auth), _) => write_login(env, yaml, 2, "REDIS_AUTH", &Login::plain(&auth)),
        (None, Some(login)) => write_login(env, yaml, 2, "REDIS_URL", login),
        (None, None) => {}
    }
    if let (Some(auth), "sentinel") = (env.text("REDIS_SENTINEL_AUTH"), kind) {
        yaml.map(2, "sentinel");
        write_login(env, yaml, 3, "REDIS_SENTINEL_AUTH", &Login::plain(&auth));
    }
    if has_tls {
        write_tls(env, yaml);
    }
    if let Some(prefix) = env.text("CACHE_KEY_PREFIX") {
        yaml.field(2, "prefix", &quoted(&prefix));
    }
}

/// Writes the user and the password of a variable, with the password as a reference.
fn write_login(
    env: &mut Environment,
    yaml: &mut Text,
    depth: usize,
    variable: &str,
    login: &Login,
) {
    let Login { user, password } = login;
    if let Some(user) = user.as_deref().filter(|it| !it.is_empty()) {
        yaml.text(depth, "username", user);
    }
    let is_whole = env.text(variable).as_deref() == Some(&**password);
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

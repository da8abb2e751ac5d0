//! The text of a new configuration. Comments say what else there is.

use super::answers::Answers;

/// The configuration with these values.
pub fn text(answers: &Answers) -> String {
    let Answers { to, limit, key, listen, .. } = answers;
    [
        HEAD.to_owned(),
        format!(
            "# The addresses of the gateway. All settings that are omitted have safe defaults.\n\
             listeners:\n  - address: {}\n\n",
            quoted(listen)
        ),
        client(answers),
        format!(
            "# The servers for admitted requests. With several endpoints, requests go to the one with\n\
             # the fewest in progress.\n\
             upstreams:\n  app:\n    endpoints:\n      - {}\n      # - http://127.0.0.1:9001\n\n",
            quoted(to)
        ),
        store(answers),
        format!(
            "# A policy is one limit. Each key has its own count.\n\
             policies:\n  per-client:\n    \
             key: {} # ip, api_key, user, cookie:NAME, header:NAME and others: docs/keys.md\n    \
             limit: {} # also 5/s, 1_000/15m, 20000/day\n    \
             # mode: shadow # counts, and refuses nothing: to try a limit first\n{}",
            quoted(key),
            quoted(limit),
            if has_invented_keys(answers) { "" } else { "\n" }
        ),
        address(answers),
        routes(answers),
        admin(answers),
    ]
    .concat()
}

const HEAD: &str = "\
# The configuration of the gateway: docs/configuration.md describes every field.
#
#   tollgate check           finds mistakes
#   tollgate run             runs it; a changed file is in force within a second

";

const ROUTES: &str = "\
# The first route that matches a request is used. All of its policies must admit the request.
routes:
";
const ICON: &str = "  \
  - name: icon # browsers ask for it by themselves, so it is not counted
    path: /favicon.ico
    respond: { status: 404 }
";
const ROUTE: &str = "  \
  - name: everything
    path: /*
    policies: [per-client]
    upstream: app

";
const ADDRESS: &str = "  \
  # Clients can invent API keys: docs/keys-api.md shows how to make keys known.
  per-ip:
    key: ip
    limit: 1000/minute

";

fn routes(answers: &Answers) -> String {
    // A browser asks for an icon by itself, which would use up the limit.
    let icon = if answers.to == "builtin:echo" { ICON } else { "" };
    let route = match has_invented_keys(answers) {
        true => ROUTE.replace("[per-client]", "[per-client, per-ip]"),
        false => ROUTE.to_owned(),
    };
    [ROUTES, icon, &route].concat()
}

/// Whether clients choose the keys by which they are counted.
fn has_invented_keys(answers: &Answers) -> bool {
    answers.key == "api_key"
}

/// A second limit beside one that clients can evade.
fn address(answers: &Answers) -> String {
    let is_needed = has_invented_keys(answers);
    if is_needed { ADDRESS.to_owned() } else { String::new() }
}

fn client(answers: &Answers) -> String {
    let about = "\
# Clients are known by the address of their connection. Behind a proxy that is the address of the
# proxy: name its networks, so that the gateway believes its X-Forwarded-For.
";
    match &answers.trusted_proxies[..] {
        [] => format!("{about}#\n# client:\n#   trusted_proxies: [10.0.0.0/8]\n\n"),
        networks => {
            let networks: Vec<String> = networks.iter().map(|it| quoted(it)).collect();
            format!("{about}client:\n  trusted_proxies: [{}]\n\n", networks.join(", "))
        }
    }
}

fn store(answers: &Answers) -> String {
    match &answers.redis {
        None => "\
# Counters are in the memory of this process. Several gateways share theirs in Redis:
#
# store:
#   redis: { url: redis://127.0.0.1:6379 }

"
        .to_owned(),
        Some(url) => format!(
            "# All gateways with this Redis share their counters: docs/redis.md.\n\
             store:\n  redis:\n    url: {} # a password: redis://:${{REDIS_PASSWORD}}@host\n\n",
            quoted(url)
        ),
    }
}

fn admin(answers: &Answers) -> String {
    let about = "\
# The admin listener shows what the gateway does, and changes limits while it runs: docs/admin.md.
";
    match &answers.admin {
        None => format!(
            "{about}# To switch it on, remove the two # below, and set TOLLGATE_ADMIN_TOKEN (openssl rand -hex 32).\n\
             #\n# admin:\n#   {{ address: 127.0.0.1:9901, token: \"${{TOLLGATE_ADMIN_TOKEN}}\" }}\n"
        ),
        Some(socket) if socket.starts_with("unix:") => {
            format!(
                "{about}# Over a Unix socket it needs no token.\nadmin:\n  address: {}\n",
                quoted(socket)
            )
        }
        Some(address) => format!(
            "{about}admin:\n  address: {}\n  token: \"${{TOLLGATE_ADMIN_TOKEN}}\" # openssl rand -hex 32\n",
            quoted(address)
        ),
    }
}

/// A text of YAML: in quotes unless it is a plain word there.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:*".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    match begins_well && text.chars().all(is_plain) && !text.ends_with(':') {
        true => text.to_owned(),
        // A string of JSON is one of YAML.
        false => serde_json::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Report};

    fn answers() -> Answers {
        Answers {
            to: "http://127.0.0.1:9000".to_owned(),
            limit: "100/minute".to_owned(),
            key: "ip".to_owned(),
            listen: "0.0.0.0:8080".to_owned(),
            trusted_proxies: Vec::new(),
            redis: None,
            admin: None,
        }
    }

    fn check(answers: &Answers, env: &dyn Fn(&str) -> Option<String>) -> Config {
        let text = text(answers);
        let compiled =
            Config::parse(&text, "gateway.yaml", env).unwrap_or_else(|it| panic!("{it}"));
        assert!(Report::is_empty(&compiled.warnings), "{}", compiled.warnings);
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        compiled.config
    }

    #[test]
    fn each_configuration_is_good_and_has_no_warning() {
        let usual = check(&answers(), &|_| None);
        assert!(usual.admin.is_none() && usual.store.redis.is_none());
        let token = |name: &str| (name == "TOLLGATE_ADMIN_TOKEN").then(|| "a".repeat(32));
        let full = Answers {
            to: "builtin:echo".to_owned(),
            limit: "1_000/15m".to_owned(),
            key: "header:x-tenant".to_owned(),
            listen: "[::]:8080".to_owned(),
            trusted_proxies: vec!["10.0.0.0/8".to_owned(), "2001:db8::/32".to_owned()],
            redis: Some("redis://:a%23b@127.0.0.1:6379".to_owned()),
            admin: Some("127.0.0.1:9901".to_owned()),
        };
        let full = check(&full, &token);
        assert!(full.admin.is_some() && full.store.redis.is_some());
        let by_key = Answers { key: "api_key".to_owned(), ..answers() };
        assert_eq!(check(&by_key, &|_| None).policies.len(), 2);
        let socket = Answers { admin: Some("unix:/run/a.sock".to_owned()), ..answers() };
        assert!(check(&socket, &|_| None).admin.is_some());
    }

    /// What the comments offer is also good.
    #[test]
    fn what_is_commented_out_can_be_switched_on() {
        let text = text(&answers());
        let on = text
            .replace("# client:\n#   ", "client:\n  ")
            .replace("# admin:\n#   ", "admin:\n  ")
            .replace("# mode: shadow", "mode: shadow")
            .replace("# - http", "- http");
        assert_ne!(on, text);
        let token = |_: &str| Some("a".repeat(32));
        let compiled =
            Config::parse(&on, "gateway.yaml", &token).unwrap_or_else(|it| panic!("{it}"));
        assert!(compiled.config.admin.is_some(), "{on}");
    }
}

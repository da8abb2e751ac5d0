//! Environments, and the configurations that they become.

use std::time::Duration;

use super::*;
use crate::check::CheckSettings;
use crate::check::rls::Dialect;
use crate::config::Config;

/// What Envoy Gateway sets, without TLS, whose files would have to exist.
const ENVOY_GATEWAY: &[(&str, &str)] = &[
    ("RUNTIME_ROOT", "/data"),
    ("RUNTIME_SUBDIRECTORY", "ratelimit"),
    ("RUNTIME_IGNOREDOTFILES", "true"),
    ("RUNTIME_WATCH_ROOT", "false"),
    ("LOG_LEVEL", "info"),
    ("USE_STATSD", "false"),
    ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
    ("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001"),
    ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
    ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
    ("REDIS_SOCKET_TYPE", "tcp"),
    ("REDIS_URL", "redis.redis-system.svc:6379"),
    ("USE_PROMETHEUS", "true"),
    ("PROMETHEUS_ADDR", ":19001"),
    ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml"),
];

fn of(pairs: &[(&str, &str)]) -> Translated {
    let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    translate(Environment::new(owned))
}

/// The configuration, which must have no mistakes.
fn compiled(translated: &Translated) -> Config {
    assert_eq!(translated.mistakes, [""; 0]);
    let env = |name: &str| translated.secrets.get(name);
    let compiled = Config::parse(&translated.yaml, NAME, &env);
    compiled.unwrap_or_else(|report| panic!("{report}\n{}", translated.yaml)).config
}

fn check(pairs: &[(&str, &str)]) -> CheckSettings {
    // Memory is enough, and there is no such directory.
    let xds = [("CONFIG_TYPE", "GRPC_XDS_SOTW")];
    compiled(&of(&[&xds[..], pairs].concat())).check
}

fn with(more: &[(&str, &str)]) -> Translated {
    of(&[ENVOY_GATEWAY, more].concat())
}

#[test]
fn the_environment_of_envoy_gateway_is_a_configuration() {
    let translated = with(&[]);
    let expected = r#"check:
  http:
    address: "0.0.0.0:8080"
    trust: ["0.0.0.0/0", "::/0"]
  grpc:
    address: "0.0.0.0:8081"
    trust: ["0.0.0.0/0", "::/0"]
    services: [ratelimit]
    headers: []
    xds:
      server: "h2c://envoy-gateway:18001"
      node: "envoy-ratelimit"
      wait: false
    envoy:
      algorithm: fixed_window
      counting: each
      store_mode: exact
      on_store_failure: local
store:
  redis:
    url: "redis://redis.redis-system.svc:6379"
admin:
  probe:
    address: ":19001"
    metrics: true
telemetry:
  log: { level: info, format: text }
  access_log: false
"#;
    assert_eq!(translated.yaml, expected);
    let config = compiled(&translated);
    let grpc = config.check.grpc.as_deref().expect("there is a listener");
    let xds = grpc.xds.as_deref().expect("there is a server");
    assert_eq!((xds.node.as_str(), xds.wait, xds.max_bytes), ("envoy-ratelimit", false, 64 << 20));
    assert!(grpc.rate_limits.fields.is_empty());
    let admin = config.admin.expect("there is a probe");
    assert!(admin.is_probe_alone && admin.probe.is_some_and(|probe| probe.metrics));
    let told = ["RUNTIME_IGNOREDOTFILES", "RUNTIME_WATCH_ROOT", "USE_STATSD"];
    let names: Vec<&str> =
        translated.notes.iter().filter_map(|note| note.split(' ').next()).collect();
    assert_eq!(names, told);
}

/// docs/envoy-gateway.md shows what this environment becomes.
#[test]
fn the_page_shows_this_configuration() {
    let page = include_str!("../../../docs/envoy-gateway.md");
    let block = page.split("```").find(|block| block.contains("# gateway.yaml"));
    let yaml = block.and_then(|it| it.split_once('\n')).expect("there is a block").1;
    let shown = Config::parse(yaml, "gateway.yaml", &|_| None).expect("it has no mistakes").config;
    let own = compiled(&with(&[]));
    let grpc = |config: &Config| config.check.grpc.clone().expect("there is a listener");
    let http =
        |config: &Config| config.check.http.clone().expect("there is a listener").listener.clone();
    assert_eq!((grpc(&shown).xds.clone(), http(&shown)), (grpc(&own).xds.clone(), http(&own)));
    assert_eq!(grpc(&shown).rate_limits.fields, grpc(&own).rate_limits.fields);
    assert_eq!((shown.admin, shown.store.redis), (own.admin, own.store.redis));
}

#[test]
fn secrets_are_references() {
    let redis = |translated: &Translated| compiled(translated).store.redis.expect("a server");
    for (more, written, user) in [
        (&[("REDIS_AUTH", "s3cret")][..], "password: \"${REDIS_AUTH}\"", None),
        (&[("REDIS_AUTH", "ann:s3c:ret${x}")], "password: \"${REDIS_AUTH_PASSWORD}\"", Some("ann")),
        (
            &[("REDIS_URL", "rediss://ann:s3cret@r:6380/2")],
            "url: \"rediss://r:6380/2\"",
            Some("ann"),
        ),
    ] {
        let translated = with(more);
        let yaml = &translated.yaml;
        assert!(yaml.contains(written), "{yaml}");
        assert!(!yaml.contains("s3c") && !format!("{translated:?}").contains("s3c"), "{yaml}");
        // A variable of the process itself is not there in this test.
        if !written.contains("${REDIS_AUTH}") {
            let credentials = redis(&translated).credentials;
            assert_eq!(credentials.username.as_deref(), user);
            assert!(credentials.password.is_some());
        }
    }
    let other = &[
        ("REDIS_TYPE", "SENTINEL"),
        ("REDIS_URL", "mymaster,a:1,b:2"),
        ("REDIS_AUTH", "ann:s3cret"),
        ("REDIS_SENTINEL_AUTH", "eve:other"),
        ("CACHE_KEY_PREFIX", "eg:"),
    ];
    let translated = with(other);
    assert!(translated.yaml.contains("redis+sentinel://a:1,b:2/mymaster"), "{}", translated.yaml);
    let settings = redis(&translated);
    let sentinels = settings.sentinel_credentials.expect("they have credentials");
    assert_eq!((sentinels.username.as_deref(), &*settings.prefix), (Some("eve"), "eg:"));
}

/// envoyproxy/ratelimit parses what has a scheme as a URL, and takes all else as it is.
#[test]
fn the_user_and_the_password_of_a_url_are_decoded() {
    for (variable, value, user, password) in [
        ("REDIS_URL", "redis://:p%40ss%2Fwo%3Ard@r:6379/0", None, "p@ss/wo:rd"),
        ("REDIS_URL", "rediss://a%3Ann:%25p%c3%a9@r", Some("a:nn"), "%p\u{e9}"),
        ("REDIS_URL", "redis://:p%2Cq@a:1,redis://b:2", None, "p,q"),
        ("REDIS_URL", "ann:p%40ss@r:6379", Some("ann"), "p%40ss"),
        ("REDIS_AUTH", "a%3Ann:p%40ss", Some("a%3Ann"), "p%40ss"),
    ] {
        let kind = if value.contains("b:2") { "CLUSTER" } else { "SINGLE" };
        let translated = with(&[("REDIS_TYPE", kind), (variable, value)]);
        let redis = compiled(&translated).store.redis.expect("a server");
        assert_eq!(redis.credentials.username.as_deref(), user, "{value}");
        let name = format!("{variable}_PASSWORD");
        assert_eq!(translated.secrets.get(&name).as_deref(), Some(password), "{value}");
        assert!(redis.credentials.password.is_some(), "{value}");
    }
    for value in ["redis://:hunter2%4@r", "redis://:hunter2%@r", "redis://:hunter2%ff@r"] {
        let mistakes = with(&[("REDIS_URL", value)]).mistakes;
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        let expected = "in REDIS_URL has a % without a code: write %25 for %";
        assert!(mistakes[0].contains(expected) && !mistakes[0].contains("hunter2"), "{mistakes:?}");
    }
}

/// The default user of Redis was used.
#[test]
fn a_user_without_a_password_is_a_mistake() {
    let single: &[(&str, &str)] = &[("REDIS_AUTH", "ann:")];
    let sentinel = &[
        ("REDIS_TYPE", "sentinel"),
        ("REDIS_URL", "mymaster,a:1"),
        ("REDIS_SENTINEL_AUTH", "ann:"),
    ];
    for more in [single, sentinel] {
        let translated = with(more);
        let env = |name: &str| translated.secrets.get(name);
        let report = Config::parse(&translated.yaml, NAME, &env).map(drop).unwrap_err();
        assert!(report.to_string().contains("has no password"), "{report}");
    }
}

#[test]
fn servers_of_redis_have_the_forms_of_each_type() {
    for (more, url) in [
        (&[("REDIS_TYPE", "CLUSTER"), ("REDIS_URL", "a:1,b:2")][..], "redis+cluster://a:1,b:2"),
        (&[("REDIS_TLS", "true"), ("REDIS_URL", "a:1")], "rediss://a:1"),
        (
            &[
                ("REDIS_TYPE", "cluster"),
                ("REDIS_TLS", "1"),
                ("REDIS_URL", "redis://a:1,redis://b:2"),
            ],
            "rediss+cluster://a:1,b:2",
        ),
        (
            &[("REDIS_SOCKET_TYPE", "unix"), ("REDIS_URL", "/run/r.sock")],
            "redis+unix:///run/r.sock",
        ),
        (&[("REDIS_URL", "redis://a:1/3")], "redis://a:1/3"),
        (&[("REDIS_URL", "REDISS://a:1")], "rediss://a:1"),
        (&[("REDIS_URL", "redis+cluster://a:1,b:2")], "redis+cluster://a:1,b:2"),
        (&[("REDIS_URL", "Rediss+Cluster://:p@a:1,b:2")], "rediss+cluster://a:1,b:2"),
        (
            &[("REDIS_TYPE", "cluster"), ("REDIS_URL", "redis+cluster://a:1,rediss://b:2")],
            "rediss+cluster://a:1,b:2",
        ),
        (&[("REDIS_URL", "rediss+sentinel://:p@a:1,b:2/m")], "rediss+sentinel://a:1,b:2/m"),
        (
            &[("REDIS_TYPE", "sentinel"), ("REDIS_URL", "redis+sentinel://a:1/m/3")],
            "redis+sentinel://a:1/m/3",
        ),
        (
            &[("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_URL", "redis+unix://:p@/run/r.sock?db=3")],
            "redis+unix:///run/r.sock?db=3",
        ),
    ] {
        let translated = with(more);
        assert!(translated.yaml.contains(&format!("url: \"{url}\"\n")), "{}", translated.yaml);
        assert!(compiled(&translated).store.redis.is_some());
    }
    let translated = of(&[("CONFIG_TYPE", "GRPC_XDS_SOTW")]);
    assert!(compiled(&translated).store.redis.is_none());
    assert!(translated.notes.iter().any(|it| it.contains("counts in memory, and alone")));
}

/// Regression: each scheme but `rediss` in small letters lost its TLS and its type, and the password
/// was sent in clear text.
#[test]
fn a_scheme_that_cannot_be_used_is_a_mistake() {
    for (kind, url, expected) in [
        ("", "http://:hunter2@a:1", "another scheme than those of Redis"),
        ("", "rediss+unix://:hunter2@/run/r.sock", "another scheme than those of Redis"),
        ("", "redis+ring://a:1", "another scheme than those of Redis"),
        ("", "ann:hunter2://x@a:1", "another scheme than those of Redis"),
        ("cluster", "redis://:hunter2@a:1,http://b:2", "another scheme than those of Redis"),
        ("", "redis://:hunter2@a:1,rediss+cluster://b:2", "at the beginning of REDIS_URL"),
        ("sentinel", "m,redis+cluster://:hunter2@a:1", "at the beginning of REDIS_URL"),
        ("sentinel", "rediss://:hunter2@m,a:1", "begins with the name of the master"),
        ("sentinel", "redis+cluster://:hunter2@a:1", "REDIS_TYPE is sentinel, and the scheme"),
        ("single", "redis+sentinel://:hunter2@a:1/m", "the scheme of REDIS_URL means sentinel"),
    ] {
        let translated = with(&[("REDIS_TYPE", kind), ("REDIS_URL", url)]);
        let mistakes = &translated.mistakes;
        assert_eq!(mistakes.len(), 1, "{url}: {mistakes:?}");
        assert!(mistakes[0].contains(expected), "{url}: {mistakes:?}");
        assert!(!format!("{translated:?}").contains("hunter2"), "{url}: {translated:?}");
    }
}

#[test]
fn switches_and_numbers_have_the_forms_of_go() {
    let check = check(&[
        ("HOST", "::1"),
        ("PORT", "9000"),
        ("GRPC_UDS", "/run/r.sock"),
        ("GRPC_MAX_CONNECTION_AGE", "1h30m"),
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "T"),
        ("SHADOW_MODE", "1"),
        ("QUOTA_MODE", "true"),
        ("MERGE_DOMAIN_CONFIG", "TRUE"),
        ("RESPONSE_DYNAMIC_METADATA", "t"),
        ("TOLLGATE_ALGORITHM", "sliding_window"),
        ("TOLLGATE_COUNTING", "together"),
        ("TOLLGATE_STORE_MODE", "leased"),
        ("TOLLGATE_ON_STORE_FAILURE", "deny"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "a=b,c=d=e,nothing"),
        ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1048576"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "dns:///eg:18001"),
    ]);
    let http = check.http.expect("HTTP");
    let grpc = check.grpc.expect("gRPC");
    assert_eq!(http.listener.address.to_string(), "[::1]:9000");
    assert_eq!(grpc.listener.address.to_string(), "unix:/run/r.sock");
    assert_eq!(grpc.listener.timeouts.age, Some(Duration::from_secs(5400)));
    assert_eq!(grpc.rate_limits.fields, [Dialect::Erl]);
    let switches = grpc.rate_limits.switches;
    let all = [switches.shadow, switches.quota, switches.merge_domains, switches.metadata];
    assert_eq!((all, switches.sliding, switches.together), ([true; 4], true, true));
    assert_eq!(
        format!("{:?}", switches.consistency),
        "Consistency { mode: Leased, on_failure: Deny }"
    );
    let xds = grpc.xds.as_ref().expect("a server");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(xds.metadata, [pair("a", "b"), pair("c", "d=e")]);
    assert_eq!((xds.max_bytes, xds.wait), (1 << 20, true));
    assert_eq!(xds.server.to_string(), "h2c://eg:18001");
}

#[test]
fn a_directory_of_files_is_that_of_the_original() {
    let yaml = of(&[("RUNTIME_ROOT", "/data"), ("RUNTIME_SUBDIRECTORY", "ratelimit")]).yaml;
    assert!(yaml.contains("    envoy_config: \"/data/ratelimit/config\"\n"), "{yaml}");
    assert!(of(&[]).yaml.contains("envoy_config: \"/srv/runtime_data/current/config\""));
    let odd = of(&[("RUNTIME_ROOT", "/${x}"), ("RUNTIME_APPDIRECTORY", "c")]).yaml;
    assert!(odd.contains("envoy_config: \"/$${x}/c\""), "{odd}");
}

#[test]
fn tls_needs_its_files_and_names_them() {
    let yaml = with(&[
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "/certs/tls.crt"),
        ("GRPC_SERVER_TLS_KEY", "/certs/tls.key"),
        ("GRPC_SERVER_TLS_CA_CERT", "/certs/ca.crt"),
        ("GRPC_CLIENT_TLS_CACERT", "/certs/clients.crt"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/certs/tls.key"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/certs/ca.crt"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "eg.test"),
        ("REDIS_TLS", "true"),
        ("REDIS_TLS_CLIENT_CERT", "/redis-certs/tls.crt"),
        ("REDIS_TLS_CLIENT_KEY", "/redis-certs/tls.key"),
    ]);
    for line in [
        "    tls:\n      certificates: [{ cert: \"/certs/tls.crt\", key: \"/certs/tls.key\" }]\n      \
         client_ca: \"/certs/clients.crt\"\n",
        "      server: \"https://envoy-gateway:18001\"\n",
        "      tls: { ca: \"/certs/ca.crt\", cert: \"/certs/tls.crt\", key: \"/certs/tls.key\", \
         server_name: \"eg.test\" }\n",
        "    tls: { cert: \"/redis-certs/tls.crt\", key: \"/redis-certs/tls.key\" }\n",
    ] {
        assert!(yaml.yaml.contains(line), "{line}\n{}", yaml.yaml);
    }
    assert!(yaml.notes.iter().any(|it| it.starts_with("GRPC_SERVER_TLS_CA_CERT has no effect")));
}

#[test]
fn what_cannot_be_done_is_a_mistake() {
    for (pair, expected) in [
        (("BACKEND_TYPE", "memcache"), "BACKEND_TYPE=memcache is not supported"),
        (("SHADOW_MODE", "yes"), "the value of SHADOW_MODE cannot be used: write true or false"),
        (("GRPC_MAX_CONNECTION_AGE", "1 hour"), "write a duration like 1h30m"),
        (("GRPC_MAX_CONNECTION_AGE", TOO_LONG), "write a duration like 1h30m"),
        (("CONFIG_TYPE", "etcd"), "write one of: file, grpc_xds_sotw"),
        (("REDIS_TYPE", "ring"), "write one of: single, cluster, sentinel"),
        (("REDIS_URL", ","), "REDIS_URL names no server"),
        (("GRPC_SERVER_USE_TLS", "true"), "needs GRPC_SERVER_TLS_CERT"),
        (("GRPC_CLIENT_TLS_SAN", "a.test"), "GRPC_CLIENT_TLS_SAN is not supported"),
        (("TOLLGATE_COUNTING", "some"), "write one of: each, together"),
        (("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "4MB"), "write a number"),
    ] {
        let mistakes = with(&[pair]).mistakes;
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert!(mistakes[0].contains(expected), "{mistakes:?}");
    }
}

#[test]
fn a_variable_without_an_effect_is_told() {
    let notes = |name: &str, value: &str| with(&[(name, value)]).notes;
    for name in
        ["REDIS_PIPELINE_WINDOW", "REDIS_PERSECOND", "REDIS_PERSECOND_URL", "TRACING_ENABLED"]
    {
        let told = notes(name, "1");
        assert!(told.iter().any(|it| it.starts_with(&format!("{name} has no effect"))), "{told:?}");
    }
    assert!(notes("NEAR_LIMIT_RATIO", "0.5").iter().any(|it| it.starts_with("NEAR_LIMIT_RATIO")));
    assert!(!notes("NEAR_LIMIT_RATIO", "0.8").iter().any(|it| it.starts_with("NEAR_LIMIT_RATIO")));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("conf.yaml");
    let mapper = |text: &str| {
        std::fs::write(&file, text).unwrap();
        notes("PROMETHEUS_MAPPER_YAML", file.to_str().unwrap()).join(" ")
    };
    let known = "mappings:\n  - match: a\n    name: \"ratelimit_service_total_requests\"\n";
    assert!(!mapper(known).contains("MAPPER"));
    assert!(mapper(&known.replace("ratelimit_service", "own")).contains("own_total_requests"));
}

#[test]
fn the_name_of_the_program_stands_for_the_command() {
    let of = |given: &[&str]| arguments(given.iter().map(OsString::from));
    assert_eq!(of(&["/bin/ratelimit"]), ["/bin/ratelimit", "ratelimit"]);
    assert_eq!(of(&["ratelimit", "--print-config"]), ["ratelimit", "ratelimit", "--print-config"]);
    assert_eq!(of(&["/usr/bin/tollgate", "run"]), ["/usr/bin/tollgate", "run"]);
    assert!(of(&[]).is_empty());
}

/// Each of its parts fits in a [`Duration`](std::time::Duration), and their sum does not. Regression:
/// the sum panicked.
const TOO_LONG: &str = "5000000000000000h5000000000000000h";

#[test]
fn durations_of_go_are_read() {
    let ms = |text: &str| forms::duration(text).map(|it| it.as_millis());
    assert_eq!(ms("1h30m"), Some(5_400_000));
    assert_eq!(ms("1.5s"), Some(1500));
    assert_eq!(ms("300ms"), Some(300));
    assert_eq!((ms("0"), ms("2500us")), (Some(0), Some(2)));
    // The longest one is 2562047h47m16.854775807s.
    assert_eq!(ms("2562047h47m16s"), Some(9_223_372_036_000));
    for bad in
        ["", "1", "h", "1x", "1h 30m", "-1s", "1..5s", TOO_LONG, "9999999999999h", "2562048h"]
    {
        assert_eq!(ms(bad), None, "{bad}");
    }
}

//! The settings of valid URLs, the errors of others, and that no error has a password.

use proptest::prelude::*;

use super::*;

fn parsed(url: &str) -> RedisSettings {
    RedisSettings::parse_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn topology(url: &str) -> Topology {
    parsed(url).topology
}

fn problem(url: &str) -> String {
    RedisSettings::parse_url(url).expect_err(url).problem
}

#[test]
fn one_server_has_a_host_a_port_and_a_database() {
    let settings = parsed("redis://cache.internal:7000/3");
    assert_eq!(settings.topology, Topology::Standalone(Address::tcp("cache.internal", 7000)));
    assert_eq!(settings.database, 3);
    assert_eq!(settings.tls, None);
    assert_eq!(topology("redis://h"), Topology::Standalone(Address::tcp("h", 6379)));
    assert_eq!(topology("redis://[::1]:1/"), Topology::Standalone(Address::tcp("::1", 1)));
    assert_eq!(topology("redis://[::1]"), Topology::Standalone(Address::tcp("::1", 6379)));
}

#[test]
fn the_schemes_with_a_second_s_use_tls() {
    for url in ["rediss://h", "rediss+cluster://h", "rediss+sentinel://h/m"] {
        assert_eq!(parsed(url).tls, Some(TlsSettings::default()), "{url}");
    }
}

/// RFC 3986, section 6.2.2.1. Users, passwords and names of masters keep their capitals.
#[test]
fn schemes_and_hosts_may_have_capitals() {
    for (shouted, usual) in [
        ("REDIS://Cache.Internal:7000/3", "redis://cache.internal:7000/3"),
        ("RedisS://H", "rediss://h"),
        ("Redis+Unix:///Run/Redis.sock", "redis+unix:///Run/Redis.sock"),
        ("REDIS+CLUSTER://A,B:7001", "redis+cluster://a,b:7001"),
        ("Rediss+Cluster://A", "rediss+cluster://a"),
        ("REDIS+Sentinel://H/MyMaster", "redis+sentinel://h/MyMaster"),
        ("redis://[::FFFF]", "redis://[::ffff]"),
    ] {
        assert_eq!(parsed(shouted), parsed(usual), "{shouted}");
    }
    assert_ne!(topology("redis+unix:///A"), topology("redis+unix:///a"));
    assert_ne!(topology("redis+sentinel://h/A"), topology("redis+sentinel://h/a"));
    assert_ne!(parsed("redis://A:B@h").credentials, parsed("redis://a:b@h").credentials);
    let twice = RedisSettings::parse_shards(["redis://a", "REDIS://A"]);
    assert_eq!(twice.expect_err("one server").problem, "the shard a:6379 is named twice");
}

#[test]
fn a_user_and_password_are_decoded() {
    let both = parsed("redis://us%40er:p%3Aa%2Fss@h");
    assert_eq!(both.credentials.username.as_deref(), Some("us@er"));
    assert_eq!(both.credentials.password, Some(Password::new("p:a/ss")));
    let alone = Credentials { username: None, password: Some(Password::new("secret")) };
    assert_eq!(parsed("redis://:secret@h").credentials, alone);
}

#[test]
fn a_socket_has_a_path() {
    let settings = parsed("redis+unix:///run/redis.sock?db=2");
    assert_eq!(settings.topology, Topology::Standalone(Address::Unix("/run/redis.sock".into())));
    assert_eq!(settings.database, 2);
    assert_eq!(topology("unix:///a%20b"), Topology::Standalone(Address::Unix("/a b".into())));
}

#[test]
fn a_cluster_has_nodes() {
    let nodes = vec![Address::tcp("a", 6379), Address::tcp("b", 7001)];
    assert_eq!(topology("redis+cluster://a,b:7001"), Topology::Cluster(nodes));
}

#[test]
fn a_sentinel_url_has_the_name_of_the_master() {
    let settings = parsed("redis+sentinel://h1:26380,h2/mymaster/4");
    let sentinels = vec![Address::tcp("h1", 26380), Address::tcp("h2", 26379)];
    let master_name = "mymaster".to_owned();
    assert_eq!(settings.topology, Topology::Sentinel { sentinels, master_name });
    assert_eq!(settings.database, 4);
}

#[test]
fn shards_are_several_servers_with_the_same_credentials() {
    let shards = RedisSettings::parse_shards(["redis://:x@a/1", "redis://:x@b/1"])
        .expect("two alike servers are shards");
    assert_eq!(
        shards.topology,
        Topology::Shards(vec![Address::tcp("a", 6379), Address::tcp("b", 6379)])
    );
    assert_eq!((shards.database, shards.credentials.password), (1, Some(Password::new("x"))));
    let cases: [(&[&str], &str); 4] = [
        (&[], "there are no shards"),
        (&["redis://a", "redis://a:6379"], "the shard a:6379 is named twice"),
        (&["redis://a", "redis://:x@b"], "the shard b:6379 differs from the first"),
        (&["redis+cluster://a"], "a shard is one server, not a cluster or sentinels"),
    ];
    for (urls, problem) in cases {
        let error = RedisSettings::parse_shards(urls.iter().copied()).expect_err(problem);
        assert_eq!(error.problem, problem);
    }
}

#[test]
fn a_wrong_url_says_what_is_wrong() {
    let cases = [
        ("localhost:6379", "the URL has no scheme"),
        ("http://h", "\"http\" is not a scheme of Redis"),
        ("redis://", "\"\" is not a host with a port"),
        ("redis://h:0", "\"h:0\" is not a host with a port"),
        ("redis://h:+1", "\"h:+1\" is not a host with a port"),
        ("redis://h:", "\"h:\" is not a host with a port"),
        ("redis://::1", "\"::1\" is not a host with a port"),
        ("redis://[::1", "\"[::1\" is not a host with a port"),
        ("redis://[h]", "\"[h]\" is not a host with a port"),
        ("redis://a b", "\"a b\" is not a host with a port"),
        ("redis://h/one", "\"one\" is not a database"),
        ("redis://h/0/1", "\"0/1\" is not a database"),
        ("redis://h?db=1", "\"?db=1\" means nothing in this URL"),
        ("redis://a,b", "a redis:// URL has one host"),
        ("redis+cluster://a,b/1", "a cluster has no databases to choose from"),
        ("redis+sentinel://a,b", "the name of the master is missing"),
        (
            "redis+unix://run/r.sock",
            "a Unix socket has no host: its path begins with a third slash",
        ),
        ("redis+unix:///", "the path of the socket is missing"),
        ("redis+unix:///s?password=x", "a socket's URL has only db= behind ?"),
        ("redis://u:a%zz@h", "a % in the URL does not begin a sign in UTF-8"),
    ];
    for (url, expected) in cases {
        assert_eq!(problem(url), expected, "{url}");
    }
}

#[test]
fn an_error_says_how_to_encode_a_password() {
    for url in ["redis://:pass%@h", "redis://:pa/ss@h", "redis://:pa?ss@h"] {
        assert_eq!(RedisSettings::parse_url(url).expect_err(url).advice, ENCODING);
    }
}

/// The hosts before the last one were read as a part of the password.
#[test]
fn a_user_before_each_of_several_hosts_is_an_error() {
    for url in ["redis+cluster://u:p1@h1,u:p2@h2", "rediss+sentinel://u:p1@h1,h2@h3/main"] {
        let error = RedisSettings::parse_url(url).expect_err(url);
        assert_eq!(error.advice, ENCODING);
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(!text.contains("p1") && !text.contains("h1"), "{text}");
        }
    }
    let encoded = parsed("redis+cluster://u:p%40h1,u:p2@h2").credentials;
    assert_eq!(encoded.password, Some(Password::new("p@h1,u:p2")));
}

proptest! {
    #[test]
    fn no_url_causes_a_panic(url in "(redis|rediss|redis\\+unix|redis\\+cluster|redis\\+sentinel)://\\PC{0,40}") {
        let _ = RedisSettings::parse_url(&url);
    }

    #[test]
    fn no_error_repeats_a_password(password in "[a-z0-9@:/%?#]{8,20}") {
        let url = format!("redis://user:{password}@h:1/0");
        if let Err(error) = RedisSettings::parse_url(&url) {
            for text in [error.to_string(), format!("{error:?}")] {
                prop_assert!(!text.contains(&password), "{text}");
            }
        }
    }
}

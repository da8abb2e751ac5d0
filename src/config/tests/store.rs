//! The store becomes what its section says, and policies say on which terms.

use std::fs;

use tollgate_core::consistency::{Consistency, OnFailure, StoreMode};
use tollgate_core::time::Span;
use tollgate_redis::shared::leased::LeaseLength;
use tollgate_redis::{Address, ReadFrom, RedisSettings, Topology};

use super::*;

fn redis(fields: &str) -> RedisSettings {
    let text = format!("{SMALLEST}store: {{ redis: {{ {fields} }} }}\n");
    compile(&text).store.redis.unwrap()
}

#[test]
fn a_store_that_nodes_share_is_as_it_was_written() {
    let store = compile(LARGEST).store;
    assert_eq!(store.max_keys, 5000);
    let redis = store.redis.unwrap();
    let sentinels = vec![Address::tcp("10.0.0.1", 26379), Address::tcp("10.0.0.2", 26380)];
    assert_eq!(redis.topology, Topology::Sentinel { sentinels, master_name: "main".to_owned() });
    assert_eq!((redis.database, redis.credentials.username.as_deref()), (3, Some("ann")));
    let password = redis.credentials.password.unwrap();
    assert!(password.expose().starts_with("a secret of more than"), "it is the variable's value");
    assert!(redis.tls.is_some() && redis.secret.is_some());
    assert_eq!((redis.mode, redis.timeout), (StoreMode::Leased, Duration::from_millis(50)));
    assert_eq!((redis.prefix.as_str(), redis.expected_clients), ("limits", 5_000_000));
    assert_eq!(redis.interval, Span::from_millis(250));
    assert_eq!((redis.connections.get(), redis.read_from), (4, ReadFrom::Replica));
    assert_eq!(redis.lease, LeaseLength { share_percent: 5, longest: Span::from_secs(2) });
}

#[test]
fn a_url_alone_has_the_defaults_and_no_redis_is_none() {
    assert!(compile(SMALLEST).store.redis.is_none());
    let redis = redis("url: \"redis://redis\", username: \"${NO_USER:-}\"");
    assert_eq!(redis.topology, Topology::Standalone(Address::tcp("redis", 6379)));
    assert_eq!(redis.timeout, Duration::from_millis(20));
    assert_eq!((redis.prefix.as_str(), redis.expected_clients), ("tollgate", 1_000_000));
    assert_eq!((redis.credentials.username, redis.mode), (None, StoreMode::Exact));
    assert_eq!(redis.interval, Span::SECOND);
    assert_eq!((redis.connections.get(), redis.read_from), (1, ReadFrom::Master));
    assert_eq!(redis.lease, LeaseLength { share_percent: 2, longest: Span::from_secs(10) });
    assert!(redis.tls.is_none() && redis.secret.is_none() && redis.credentials.password.is_none());
}

/// The gateway used the default user of Redis without a word.
#[test]
fn a_user_without_a_password_is_an_error_wherever_it_is_written() {
    let report = |fields: &str| {
        let text = format!("{SMALLEST}store: {{ redis: {{ {fields} }} }}\n");
        Config::parse(&text, "gateway.yaml", &|_| None).map(drop).map_err(|it| it.to_string())
    };
    for fields in [
        "url: \"redis://ann@redis\"",
        "url: \"redis://ann:@redis\"",
        "shards: [\"redis://ann@a\", \"redis://ann@b\"]",
        "url: \"redis://redis\", username: ann",
        "url: \"redis://redis\", username: ann, password: \"${NO_PASSWORD:-}\"",
    ] {
        let report = report(fields).unwrap_err();
        assert!(report.contains("the user of Redis has no password"), "{report}");
    }
    let sentinels = |fields: &str| report(&format!("url: \"redis+sentinel://a/main\", {fields}"));
    let user = "sentinel: { username: ann, password: \"${NO_PASSWORD:-}\" }";
    let told = sentinels(user).unwrap_err();
    assert!(told.contains("the user of the Sentinels has no password"), "{told}");
    assert_eq!(sentinels("sentinel: { username: \"${NO_USER:-}\" }"), Ok(()));
    let command = "username: ann, password_command: [/bin/true]";
    assert_eq!(report(&format!("url: \"redis://redis\", {command}")), Ok(()));
    assert_eq!(report("url: \"redis://redis\", username: ann, password: x"), Ok(()));
}

#[test]
fn shards_are_servers_in_the_order_of_the_file() {
    let redis = redis("shards: [\"redis://:pass@a/1\", \"redis://:pass@b:7000/1\"]");
    assert_eq!(
        redis.topology,
        Topology::Shards(vec![Address::tcp("a", 6379), Address::tcp("b", 7000)])
    );
    assert_eq!((redis.database, redis.credentials.password.unwrap().expose()), (1, "pass"));
}

#[test]
fn files_of_certificates_are_read_beside_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = made.cert.pem();
    let key = made.signing_key.serialize_pem();
    fs::write(directory.path().join("cert.pem"), &cert).unwrap();
    fs::write(directory.path().join("key.pem"), &key).unwrap();
    let text = format!(
        "{SMALLEST}store: {{ redis: {{ url: \"rediss://a\", \
         tls: {{ ca: cert.pem, cert: cert.pem, key: key.pem }} }} }}\n"
    );
    let name = directory.path().join("gateway.yaml");
    let parse = |text: &str| Config::parse(text, &name.to_string_lossy(), &|_| None);
    let tls = parse(&text).unwrap().config.store.redis.unwrap().tls.unwrap();
    let identity = tls.parts().identity.clone().unwrap();
    let der = vec![made.cert.der().clone()];
    assert_eq!((tls.parts().ca.clone(), identity.chain), (Some(der.clone()), der));
    assert_eq!(identity.key.secret_der(), made.signing_key.serialize_der());
    let report = parse(&text.replace("ca: cert.pem", "ca: key.pem")).unwrap_err().to_string();
    let lack = "the file \"key.pem\" cannot be used: there is no certificate in it, but a";
    assert!(report.contains(lack), "{report}");
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    fs::write(directory.path().join("key.pem"), other).unwrap();
    let report = parse(&text).unwrap_err().to_string();
    let mismatch =
        "the file \"key.pem\" cannot be used: the key does not belong to the certificate";
    assert!(report.contains(mismatch), "{report}");
}

#[test]
fn a_policy_has_the_terms_of_the_store_or_its_own() {
    let config = compile(LARGEST);
    let consistency = |name: &str| {
        config.policies.iter().find(|policy| &*policy.name == name).unwrap().consistency
    };
    let leased = Consistency { mode: StoreMode::Leased, on_failure: OnFailure::Local };
    assert_eq!(consistency("nested"), leased);
    let own = Consistency { mode: StoreMode::WriteBack, on_failure: OnFailure::Deny };
    assert_eq!(consistency("bucket"), own);
    for exact in ["logged", "queue", "running"] {
        assert_eq!(consistency(exact), Consistency::default(), "{exact} can be nothing but exact");
    }
}

#[test]
fn overrides_are_kept_in_a_file_beside_the_configuration_or_in_redis() {
    let overridable = "policies: { p: { key: ip, limit: 5/s, soft: 20%, overrides: true } }\n";
    let of = |store: &str| {
        let text = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
                    routes: [{ path: /, policies: [p], respond: { body: ok } }]\n";
        let text = format!("{text}{overridable}store: {{ {store} }}\n");
        Config::parse(&text, "/etc/tollgate/gateway.yaml", &|_| None).unwrap().config
    };
    let config = of("overrides: { path: overrides.redb }");
    let path = config.store.overrides.unwrap();
    assert_eq!(path.to_str(), Some("/etc/tollgate/overrides.redb"));
    assert_eq!(config.policies[0].overrides.unwrap().soft_percent, 20);
    let config = of("redis: { url: \"redis://redis\" }");
    assert!(config.store.overrides.is_none() && config.policies[0].overrides.is_some());
    assert!(compile(SMALLEST).policies.iter().all(|policy| policy.overrides.is_none()));
}

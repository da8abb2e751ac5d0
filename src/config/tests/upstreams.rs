//! Upstreams, and how routes send requests to them.

use std::fs;
use std::time::Duration;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::ServerName;

use super::*;
use crate::proxy::{CheckSettings, EjectSettings, RetryCause, RetrySettings};

#[test]
fn health_is_as_it_was_written() {
    let app = &compile(LARGEST).upstreams[0];
    let check = CheckSettings {
        interval: Duration::from_secs(7),
        timeout: Duration::from_secs(2),
        rise: 4,
        fall: 5,
        ..CheckSettings::new("/healthz?deep=1".parse().unwrap())
    };
    let period = Duration::from_secs(60);
    let eject = EjectSettings { consecutive_errors: 6, period, max_percent: 30 };
    assert_eq!((app.check.as_ref(), app.eject), (Some(&check), Some(eject)));
    assert_eq!(app.slow_start, Duration::from_secs(60));
    let smallest = &compile(SMALLEST).upstreams[0];
    assert_eq!((smallest.check.as_ref(), smallest.eject), (None, None));
}

#[test]
fn the_scheme_of_an_endpoint_decides_how_it_is_reached() {
    let secure = &compile(LARGEST).upstreams[1];
    let targets: Vec<_> = secure.endpoints.iter().map(|it| it.target.clone()).collect();
    let name = |name: &'static str| ServerName::try_from(name).unwrap();
    assert_eq!(
        targets,
        [
            Target::Https("app.example:443".parse().unwrap(), name("app.example")),
            Target::Https("[::1]:8443".parse().unwrap(), name("::1")),
            Target::H2c("10.0.0.1:80".parse().unwrap()),
            Target::Unix("/run/app.sock".into()),
        ]
    );
    assert!(secure.tls.is_some());
    assert_eq!(secure.balance, Balance::Hash);
    let Endpoint(url) = "unix:///run/app.sock".parse().unwrap();
    assert_eq!(url, Target::Unix("/run/app.sock".into()));
}

#[test]
fn a_route_knows_the_key_that_its_upstream_hashes() {
    let text = LARGEST.replace("/v1/orders/{id}\n", "/v1/orders/{id}\n    # here\n");
    let config = compile(&text.replacen("upstream: app", "upstream: secure", 1));
    let key = KeyExpr::First(vec![KeyExpr::ApiKey, KeyExpr::Ip]);
    assert_eq!(config.routes[0].rule.affinity, Some(key));
    assert_eq!(compile(SMALLEST).routes[0].rule.affinity, None);
}

#[test]
fn retries_are_as_they_were_written() {
    let retries = |written: &str| {
        let route = "policies: [per-client], upstream: app";
        let config = compile(&SMALLEST.replace(route, &format!("{route}, {written}")));
        config.routes[0].handling.retries.clone()
    };
    assert_eq!(retries("retries: {}"), Some(RetrySettings::default()));
    let all = "retries: { attempts: 3, on: [connect, 503], methods: [POST], budget: 5% }";
    let expected = RetrySettings {
        attempts: 3,
        on: vec![RetryCause::Connect, RetryCause::Unavailable],
        methods: vec![http::Method::POST],
        budget_percent: 5,
    };
    assert_eq!(retries(all), Some(expected));
    assert_eq!(retries("max_body: 1"), None);
}

/// An upstream and that of an authorizer would share their state and their series of metrics.
#[test]
fn an_upstream_does_not_have_the_name_of_that_of_an_authorizer() {
    let named = |name: &str| parse(&SMALLEST.replace("app", &format!("\"{name}\"")));
    let report = named("authorizer:sso").unwrap_err().to_string();
    assert!(report.contains("\"authorizer:sso\" is that of an authorizer's upstream"), "{report}");
    assert!(named("app:authorizer").is_ok());
}

#[test]
fn a_key_must_be_that_of_its_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([String::from("a.test")]).unwrap();
    let other = KeyPair::generate().unwrap();
    for (name, pem) in [
        ("cert.pem", cert.pem()),
        ("key.pem", signing_key.serialize_pem()),
        ("other.pem", other.serialize_pem()),
    ] {
        fs::write(directory.path().join(name), pem).unwrap();
    }
    let tls = "tls: { ca: cert.pem, cert: cert.pem, key: key.pem }";
    let text = SMALLEST.replace("[http://127.0.0.1:9000]", &format!("[https://a.test], {tls}"));
    let file = directory.path().join("gateway.yaml");
    let parse = |text: &str| Config::parse(text, file.to_str().unwrap(), &|_| None);
    assert!(parse(&text).unwrap().config.upstreams[0].tls.is_some());
    let report = parse(&text.replace("key: key.pem", "key: other.pem")).unwrap_err().to_string();
    assert!(report.contains("the file \"other.pem\" cannot be used: the key does not belong"));
    assert!(report.contains("name the key of \"cert\""), "{report}");
}

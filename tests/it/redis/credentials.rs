//! Credentials, certificates and numbers of connections that change while gateways decide: no
//! restart, and no decision without Redis.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{PATIENT, wait_for_store};
use crate::support::load::{Load, Plan};
use crate::support::redis::{Options, Redis, Sentinels};
use crate::support::{Certificates, Gateway, eventually};

/// A server with the user tollgate, whose password is `one`.
fn server() -> Redis {
    Redis::start(Options {
        lines: vec!["user tollgate on >one ~* +@all".to_owned()],
        ..Options::default()
    })
}

/// The password of the user is another one from now on. Open connections stay open.
fn rotate(redis: &Redis, password: &str) {
    redis.cli(&["ACL", "SETUSER", "tollgate", "resetpass", &format!(">{password}")]);
}

/// A gateway with two workers, whose store has these fields.
fn yaml(store: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         store: {{ redis: {{ {store}, {PATIENT} }} }}\n\
         policies: {{ each: {{ key: \"header:x-client\", limit: 1M/day, overrides: true }},\
         probe: {{ key: ip, limit: 1M/day }} }}\n\
         routes:\n\
         - {{ path: /probe, policies: [probe], respond: {{ body: ok }} }}\n\
         - {{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}\n\
         runtime: {{ workers: 2 }}\n"
    )
}

fn of_user(redis: &Redis, user: &str, password: &str, further: &str) -> String {
    let url = redis.url();
    yaml(&format!("url: \"{url}\", username: {user}, password: \"{password}\"{further}"))
}

/// Makes `change` while clients send requests to the gateway. Redis decides all of them.
fn under_load(gateway: &Gateway, change: impl FnOnce()) {
    let load = Load::start(&Plan {
        addresses: vec![gateway.address()],
        connections: 4,
        path: "/",
        clients: 4,
        rest: Duration::from_millis(1),
    });
    load.settle();
    change();
    load.settle();
    let samples = load.stop();
    let wrong = samples.iter().filter(|it| it.is_local || it.status != 200);
    assert_eq!(wrong.count(), 0, "of {}:\n{}", samples.len(), gateway.log());
}

/// How often clients have authenticated so far.
fn authentications(redis: &Redis) -> u64 {
    let found = redis.info("cmdstat_auth").unwrap_or_default();
    let calls = found.split(',').find_map(|part| part.strip_prefix("calls="));
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// The users of the connections of gateways.
fn users(redis: &Redis) -> Vec<String> {
    let clients = redis.cli(&["CLIENT", "LIST"]);
    let of_gateways = clients.lines().filter(|it| it.contains(" lib-name=tollgate"));
    let is_old = !clients.contains(" lib-name=");
    let all = clients.lines().filter(|it| is_old && !it.contains("cmd=client"));
    let user = |line: &str| line.split(" user=").nth(1)?.split(' ').next().map(str::to_owned);
    of_gateways.chain(all).filter_map(user).collect()
}

/// The gateway uses the password on new connections, too.
fn connects_again(redis: &Redis, gateway: &Gateway) {
    redis.cli(&["CLIENT", "KILL", "USER", "tollgate"]);
    wait_for_store(gateway);
}

#[test]
fn a_password_in_a_file_is_exchanged_without_a_decision_less() {
    let redis = server();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("password");
    fs::write(&file, "one\n").expect("a file");
    let gateway = Gateway::start(&of_user(&redis, "tollgate", &reference(&file), ""));
    wait_for_store(&gateway);
    under_load(&gateway, || {
        for password in ["two", "three"] {
            let before = authentications(&redis);
            rotate(&redis, password);
            let new = directory.path().join("new");
            fs::write(&new, password).expect("a file");
            fs::rename(new, &file).expect("a file");
            // Two workers and the main thread.
            eventually("all connections have authenticated", || {
                authentications(&redis) >= before + 3
            });
        }
    });
    connects_again(&redis, &gateway);
    let log = gateway.log();
    assert!(!log.contains("needs a restart") && !log.contains("Redis is away"), "{log}");
}

fn reference(file: &Path) -> String {
    format!("${{file:{}}}", file.display())
}

/// A program that makes the next token and ends the last one, as a service would.
fn token_program(redis: &Redis, directory: &Path) -> PathBuf {
    let program = directory.join("token");
    let script = format!(
        "#!/bin/sh\n\
         n=$(cat {0}/count 2>/dev/null || echo 0); n=$((n + 1)); echo $n > {0}/count\n\
         redis-cli -e -p {1} ACL SETUSER tollgate resetpass \">token-$n-$1\" > /dev/null || exit\n\
         echo \"token-$n-$1\"\n",
        directory.display(),
        redis.port()
    );
    fs::write(&program, script).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file");
    program
}

fn runs(directory: &Path) -> u32 {
    let count = fs::read_to_string(directory.join("count")).unwrap_or_default();
    count.trim().parse().unwrap_or_default()
}

#[test]
fn a_program_that_prints_tokens_runs_before_each_ends_and_no_decision_is_lost() {
    let redis = server();
    let directory = tempfile::tempdir().expect("a directory");
    let program = token_program(&redis, directory.path());
    let command = format!("[{}, a]", program.display());
    let url = redis.url();
    let gateway = Gateway::start(&yaml(&format!(
        "url: \"{url}\", username: tollgate, password_command: {command}, password_lifetime: 10s"
    )));
    wait_for_store(&gateway);
    assert_eq!(runs(directory.path()), 1, "it has run before the first connection");
    let before = authentications(&redis);
    under_load(&gateway, || {
        eventually("it has run twice more", || runs(directory.path()) >= 3);
        eventually("all have authenticated twice more", || authentications(&redis) >= before + 6);
    });
    connects_again(&redis, &gateway);
    // The command line runs it as well.
    let set = gateway.overrides(&["set", "each", "ann", "7/day"]);
    assert_eq!(set.code, Some(0), "{}", set.stderr);
    // Now the password of the gateway is wrong: it runs the program again.
    let ran = runs(directory.path());
    redis.cli(&["CLIENT", "KILL", "USER", "tollgate"]);
    eventually("it has run again", || runs(directory.path()) > ran);
    wait_for_store(&gateway);
    let log = gateway.log();
    assert!(!log.contains("token-"), "{log}");
}

#[test]
fn a_program_that_fails_is_reported_and_stops_nothing() {
    let redis = server();
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("token");
    let write = |script: &str| {
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file");
    };
    write("echo 'no credentials' >&2; exit 7");
    let url = redis.url();
    let path = program.display();
    let store = format!(
        "url: \"{url}\", username: tollgate, password_command: [{path}], password_lifetime: 10s"
    );
    let gateway = Gateway::start(&yaml(&store));
    let told = "has failed (exit status: 7): no credentials";
    eventually("it is reported", || gateway.log().contains(told));
    // A gateway starts without Redis.
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    write("echo one");
    wait_for_store(&gateway);
    let ended = "the credentials and certificates are in use";
    eventually("the end is noticed", || gateway.log().contains(ended));
    // The connections stay while it fails again.
    write("exit 7");
    let failures = || gateway.log().matches("cannot be used; the connections").count();
    let before = failures();
    under_load(&gateway, || eventually("it fails", || failures() > before));
}

#[test]
fn another_user_certificate_or_number_of_connections_needs_no_restart() {
    let made = Arc::new(Certificates::temporary("127.0.0.1"));
    let redis = Redis::start(Options {
        tls: Some(Arc::clone(&made)),
        lines: vec![
            "user tollgate on >one ~* +@all".to_owned(),
            "user other on >two ~* +@all".to_owned(),
        ],
        ..Options::default()
    });
    let tls = |certificate: &Path, key: &Path| {
        let ca = made.ca();
        format!(", tls: {{ ca: {ca:?}, cert: {certificate:?}, key: {key:?} }}")
    };
    let first = tls(&made.client(), &made.client_key());
    let gateway = Gateway::start(&of_user(&redis, "tollgate", "one", &first));
    wait_for_store(&gateway);
    under_load(&gateway, || {
        gateway.reload(&of_user(&redis, "other", "two", &first));
        // Two workers and the main thread.
        eventually("all are the other user", || users(&redis) == ["other"; 3]);
        let four = format!("{first}, connections: 4");
        gateway.reload(&of_user(&redis, "other", "two", &four));
        eventually("there are four for each worker", || users(&redis).len() == 9);
        gateway.reload(&of_user(&redis, "other", "two", &first));
        eventually("there is one again", || users(&redis).len() == 3);
        let (certificate, key) = made.sign("next");
        let connections = || redis.info("total_connections_received");
        let before = connections();
        gateway.reload(&of_user(&redis, "other", "two", &tls(&certificate, &key)));
        eventually("there are others", || connections() != before && users(&redis).len() == 3);
    });
    let log = gateway.log();
    assert!(!log.contains("needs a restart"), "{log}");
    // Another server needs a restart, and then nothing of the section applies.
    let elsewhere = of_user(&redis, "tollgate", "one", &first).replace("127.0.0.1:", "localhost:");
    gateway.reload(&elsewhere.replacen("localhost:0", "127.0.0.1:0", 1));
    assert!(gateway.log().contains("store: changed in the file, but the change needs a restart"));
    assert_eq!(users(&redis), ["other"; 3]);
}

/// The password once waited for the same restart, and Redis was away when its connections closed.
#[test]
fn a_password_is_adopted_while_another_change_of_the_store_waits_for_a_restart() {
    let redis = server();
    let gateway = Gateway::start(&of_user(&redis, "tollgate", "one", ""));
    wait_for_store(&gateway);
    let of = |password: &str, further: &str, memory: &str| {
        let store = format!("store: {{ {memory} redis: ");
        of_user(&redis, "tollgate", password, further).replace("store: { redis: ", &store)
    };
    let memory = "memory: { max_keys: 5000 },";
    let exchange = |password: &str, further: &str, memory: &str| {
        under_load(&gateway, || {
            let before = authentications(&redis);
            rotate(&redis, password);
            gateway.reload(&of(password, further, memory));
            // Two workers and the main thread.
            eventually("all have authenticated", || authentications(&redis) >= before + 3);
        });
    };
    exchange("two", "", memory);
    exchange("three", "", memory);
    exchange("four", ", prefix: other", "");
    connects_again(&redis, &gateway);
    let told = "store: changed in the file, but the change needs a restart";
    assert_eq!(gateway.log().matches(told).count(), 3);
}

#[test]
fn connections_behind_sentinels_adopt_a_password() {
    let user = "user tollgate on >one ~* +@all".to_owned();
    let sentinels = Sentinels::start_with(
        Options { password: Some("admin"), lines: vec![user], ..Options::default() },
        vec!["user tollgate on >sentinel resetchannels +@all".to_owned()],
    );
    let store = |password: &str| {
        let url = sentinels.url();
        yaml(&format!(
            "url: \"{url}\", username: tollgate, password: {password}, read_from: replica, \
             sentinel: {{ username: tollgate, password: sentinel }}"
        ))
    };
    let gateway = Gateway::start(&store("one"));
    wait_for_store(&gateway);
    under_load(&gateway, || {
        let before = authentications(&sentinels.master);
        for server in [&sentinels.master, &sentinels.replica] {
            rotate(server, "two");
        }
        gateway.reload(&store("two"));
        eventually("all have authenticated", || authentications(&sentinels.master) >= before + 3);
    });
    connects_again(&sentinels.master, &gateway);
}

//! The rights of the user in Redis: all that are missing are named, and no others are needed.

use super::{bad, check_store, good};
use crate::support::redis::{Options, Redis, major_version};

/// The rules for the gateway's user in docs/redis.md.
fn rules() -> Vec<String> {
    let text = std::fs::read_to_string("docs/redis.md").expect("tests run in the project");
    let line = text.lines().find_map(|line| line.strip_prefix("ACL SETUSER tollgate "));
    line.expect("docs/redis.md shows ACL SETUSER").split(' ').map(str::to_owned).collect()
}

/// A server with the user of the documentation, and its store.
fn server() -> (Redis, String) {
    let lines = vec![format!("user tollgate {}", rules().join(" "))];
    let redis = Redis::start(Options { password: Some("admin"), lines, ..Options::default() });
    let store = format!("url: \"{}\", username: tollgate, password: secret", redis.url());
    (redis, store)
}

/// The user of the server has these rules, and no others.
fn set_rules(redis: &Redis, rules: &[String]) {
    let mut command = vec!["ACL", "SETUSER", "tollgate", "reset"];
    command.extend(rules.iter().map(String::as_str));
    redis.cli(&command);
}

#[test]
fn the_rights_of_the_documentation_are_enough_and_nothing_is_left_behind() {
    let (redis, store) = server();
    let found = good(check_store(&store));
    assert!(found.contains("maxmemory-policy noeviction, clock "), "{found}");
    let denied = redis.cli(&["ACL", "LOG"]);
    assert!(!denied.contains("reason"), "{denied}");
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
}

#[test]
fn each_right_that_is_missing_is_named() {
    let (redis, store) = server();
    let all = rules();
    // Without these two, less is known, and a gateway counts nevertheless.
    let optional = ["+role", "+config|get"];
    let needed = all.iter().filter(|it| it.starts_with('+') && !optional.contains(&it.as_str()));
    let needed: Vec<&String> = needed.filter(|it| *it != "+@connection").collect();
    assert!(needed.len() > 10, "{needed:?}");
    for rule in &needed {
        let rest: Vec<String> = all.iter().filter(|it| it != rule).cloned().collect();
        set_rules(&redis, &rest);
        let report = bad(check_store(&store));
        let name = rule[1..].to_uppercase().replace('|', " ");
        let line = format!("the user may not run a command that is needed: {name}\n");
        assert!(report.contains(&line), "{rule}: {report}");
        // Redis 6.2 has no rights for subcommands of commands that are forbidden.
        assert!(report.contains(&format!("run ACL SETUSER tollgate {rule}\n")), "{report}");
    }
}

#[test]
fn all_rights_that_are_missing_are_reported_at_once() {
    let (redis, store) = server();
    let rest: Vec<String> = rules()
        .into_iter()
        .filter(|it| !["+hgetall", "+pttl", "+time"].contains(&it.as_str()))
        .map(|it| it.replace("~tollgate:*", "~tollgate:meta:*"))
        .collect();
    set_rules(&redis, &rest);
    let report = bad(check_store(&store));
    assert!(report.contains("a command that is needed: TIME, PTTL, HGETALL\n"), "{report}");
    assert!(report.contains("| run ACL SETUSER tollgate +time +pttl +hgetall\n"), "{report}");
    assert!(report.contains("the keys of the prefix: ~tollgate:* for HDEL\n"), "{report}");
    assert!(report.contains("| run ACL SETUSER tollgate ~tollgate:*\n"), "{report}");
    // The right to ask is refused, and the answer is not known.
    set_rules(&redis, &["on", ">secret", "+@connection"].map(str::to_owned));
    let report = bad(check_store(&store));
    assert!(report.contains("EVAL, SCRIPT LOAD, EVALSHA, TIME, SET, HSET"), "{report}");
    assert!(report.contains("neither CONFIG GET nor INFO tells its maxmemory-policy"), "{report}");
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
}

#[test]
fn a_user_may_not_use_other_keys_than_those_of_the_prefix() {
    let (redis, store) = server();
    let store = format!("{store}, prefix: limits");
    let report = bad(check_store(&store));
    assert!(report.contains("| run ACL SETUSER tollgate ~limits:*\n"), "{report}");
    redis.cli(&["ACL", "SETUSER", "tollgate", "~limits:*"]);
    good(check_store(&store));
}

/// As services have it, which rename commands.
#[test]
fn each_command_that_a_server_lacks_is_named() {
    let lines = ["HGET", "PEXPIRE", "SET"].map(|it| format!("rename-command {it} \"\""));
    let redis = Redis::start(Options { lines: lines.to_vec(), ..Options::default() });
    let report = bad(check_store(&format!("url: \"{}\"", redis.url())));
    assert!(report.contains("lacks a command that is needed: SET, PEXPIRE, HGET\n"), "{report}");
    assert!(report.contains("| use Redis 6.2 or later or Valkey"), "{report}");
}

/// Decisions need none of them.
#[test]
fn a_server_without_commands_that_services_refuse_is_good() {
    let refused = ["ACL", "CLIENT", "CLUSTER", "CONFIG", "DEBUG", "HELLO", "ROLE", "SELECT"];
    let lines = refused.iter().map(|it| format!("rename-command {it} \"\"")).collect();
    let redis = Redis::start(Options { lines, ..Options::default() });
    let found = good(check_store(&format!("url: \"{}\"", redis.url())));
    let version = format!(" {}.", major_version());
    assert!(found.contains("maxmemory-policy noeviction"), "{found}");
    assert!(found.contains(&version), "{found}");
}

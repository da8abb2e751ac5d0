//! The causes of real error lines of Redis, and what no text of an error contains.

use redis::{RedisError, Value, parse_redis_value};

use super::*;

fn error(line: &str) -> StoreError {
    match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
        Ok(Value::ServerError(error)) => RedisError::from(error).into(),
        other => panic!("{line}: {other:?}"),
    }
}

/// Each line is one that a server has sent (Redis 6.2, 7.0, 7.2, Valkey 8).
#[test]
fn each_error_line_has_its_cause() {
    let key = "NOPERM this user has no permissions to access one of the keys used as arguments";
    let full = "OOM command not allowed when used memory > 'maxmemory'.";
    for (line, cause) in [
        ("NOAUTH Authentication required.", OutageCause::PasswordMissing),
        ("ERR Protocol error: unauthenticated bulk length", OutageCause::PasswordMissing),
        (
            "WRONGPASS invalid username-password pair or user is disabled.",
            OutageCause::PasswordWrong,
        ),
        (
            "ERR AUTH <password> called without any password configured for the default user. Are \
             you sure your configuration is correct?",
            OutageCause::PasswordUnknown,
        ),
        (key, OutageCause::KeyForbidden),
        ("NOPERM No permissions to access a key", OutageCause::KeyForbidden),
        (
            "NOPERM this user has no permissions to run the 'eval' command",
            OutageCause::CommandForbidden,
        ),
        (
            "NOPERM User tg has no permissions to run the 'keys' command",
            OutageCause::CommandForbidden,
        ),
        (
            "ERR The user executing the script can't run this command or subcommand script: \
             dd76ad3919a13ec3151b9ac197df0f34ad34e6e0, on @user_script:1.",
            OutageCause::CommandForbidden,
        ),
        (
            "ERR The user executing the script can't access at least one of the keys mentioned in \
             the command arguments",
            OutageCause::KeyForbidden,
        ),
        ("ERR Unknown Redis command called from script", OutageCause::CommandMissing),
        ("ERR unknown command 'EVAL', with args beginning with: 'x'", OutageCause::CommandMissing),
        (full, OutageCause::MemoryFull),
        (
            "ERR Error running script (call to f_dd76): @user_script:1: @user_script: 1: -OOM \
             command not allowed when used memory > 'maxmemory'.",
            OutageCause::MemoryFull,
        ),
        ("NOREPLICAS Not enough good replicas to write.", OutageCause::TooFewReplicas),
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
             persist to disk.",
            OutageCause::CannotPersist,
        ),
        ("READONLY You can't write against a read only replica.", OutageCause::ReadOnly),
        ("LOADING Redis is loading the dataset in memory", OutageCause::Loading),
        ("BUSY Redis is busy running a script.", OutageCause::Busy),
        ("MOVED 5474 127.0.0.1:7001", OutageCause::ClusterNode),
        ("CROSSSLOT Keys in request don't hash to the same slot", OutageCause::ClusterNode),
        ("CLUSTERDOWN Hash slot not served", OutageCause::ClusterDown),
        ("ERR This instance has cluster support disabled", OutageCause::NoCluster),
        ("ERR SELECT is not allowed in cluster mode", OutageCause::Database),
        ("ERR DB index is out of range", OutageCause::Database),
        ("ERR max number of clients reached", OutageCause::TooManyConnections),
        (
            "DENIED Redis is running in protected mode because protected mode is enabled",
            OutageCause::Protected,
        ),
        ("ERR something else", OutageCause::Refused),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            OutageCause::ForeignData,
        ),
    ] {
        assert_eq!(error(line).cause(), cause, "{line}");
    }
}

/// Redis 6.2 and 8, and Valkey, have other texts.
#[test]
fn the_texts_of_other_servers_have_causes_too() {
    for (line, cause) in [
        (
            "ERR Unknown command called from script script: on @user_script:1.",
            OutageCause::CommandMissing,
        ),
        (
            "@user_script: 14: Unknown Redis command called from Lua script",
            OutageCause::CommandMissing,
        ),
        ("ERR This Valkey command is not allowed from script", OutageCause::CommandMissing),
        (
            "ERR ACL failure in script: User t has no permissions to run the 'hget' command",
            OutageCause::CommandForbidden,
        ),
        ("ERR ACL failure in script: No permissions to access a key", OutageCause::KeyForbidden),
        (
            "@user_script: 1: The user executing the script can't run this command or subcommand",
            OutageCause::CommandForbidden,
        ),
        (
            "@user_script: 1: -READONLY You can't write against a read only replica.",
            OutageCause::ReadOnly,
        ),
        ("MISCONF Valkey is configured to save RDB snapshots", OutageCause::CannotPersist),
    ] {
        assert_eq!(error(line).cause(), cause, "{line}");
    }
}

/// What the script may have counted in part is in doubt; what was refused before is not.
#[test]
fn an_error_inside_of_the_script_leaves_in_doubt_what_it_has_counted() {
    assert!(error("ERR Unknown Redis command called from script").may_have_counted());
    assert!(
        !error("NOPERM this user has no permissions to run the 'evalsha' command")
            .may_have_counted()
    );
    assert!(!error("NOREPLICAS Not enough good replicas to write.").may_have_counted());
}

/// Redis repeats the arguments of a command that it does not know.
#[test]
fn no_error_contains_the_arguments_of_a_command() {
    let error = error("ERR unknown command 'AUTH', with args beginning with: 'ann' 'hunter2' ");
    assert_eq!(error.said(), Some("ERR unknown command 'AUTH'"));
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[test]
fn the_text_of_a_server_is_one_short_line() {
    let error = error(&format!("ERR a\tb{}", "x".repeat(10_000)));
    let said = error.said().expect("a text");
    assert!(said.starts_with("ERR a b") && said.chars().count() <= MAX_CHARS + 4, "{said}");
}

#[test]
fn outside_of_a_cluster_a_redirection_is_an_error_of_the_server() {
    let moved = error("MOVED 5474 127.0.0.1:7001");
    assert!(moved.is_redirection() && !moved.is_of_server());
    let moved = moved.outside_of_cluster();
    assert!(!moved.is_redirection() && moved.is_of_server());
    assert_eq!(moved.cause(), OutageCause::ClusterNode);
    assert_eq!(moved.said(), Some("MOVED 5474 127.0.0.1:7001"));
}

//! Whether a server keeps buckets as compact as they can be.
//!
//! Redis keeps a small hash as one piece of memory. How small is a setting of the
//! server; with less than its defaults a client takes twice as much memory.

use redis::Value;

/// `CONFIG GET` of these names tells the settings. Redis 6.2 has other names for
/// them, with the same ends.
pub(super) const SETTINGS: &str = "hash-max-*";

/// The longest value that is written, in bytes (`COMPACT` in the script), and the
/// most fields that a bucket has before it is too large.
const NEEDED: [(&str, u64); 2] = [("-value", 64), ("-entries", 512)];

/// A setting that is too small.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooSmall {
    pub(super) setting: String,
    pub(super) is: u64,
    pub(super) needed: u64,
}

/// The settings that are too small, by the answer to `CONFIG GET`.
pub(super) fn too_small(answer: Value) -> Vec<TooSmall> {
    let Value::Array(texts) = answer else { return Vec::new() };
    let texts: Vec<_> = texts.into_iter().filter_map(text).collect();
    let setting = |pair: &[String]| {
        let [setting, value] = pair else { return None };
        let is = value.parse().ok()?;
        let (_, needed) = *NEEDED.iter().find(|(end, _)| setting.ends_with(end))?;
        (is < needed).then(|| TooSmall { setting: setting.clone(), is, needed })
    };
    let mut found: Vec<_> = texts.chunks(2).filter_map(setting).collect();
    // A server may tell a setting by its old name, too.
    found.dedup_by_key(|it| it.needed);
    found
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(text) => String::from_utf8(text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::script::tests::Server;

    fn told(server: &mut Server) -> Vec<TooSmall> {
        let mut get = redis::cmd("CONFIG");
        too_small(get.arg("GET").arg(SETTINGS).query(&mut server.connection).unwrap())
    }

    #[test]
    fn a_server_with_smaller_settings_than_its_defaults_is_told_of() {
        let mut server = Server::start();
        assert_eq!(told(&mut server), []);
        let mut set = redis::cmd("CONFIG");
        let set = set.arg("SET").arg("hash-max-ziplist-value").arg(32);
        set.exec(&mut server.connection).unwrap();
        let told = told(&mut server);
        assert!(!told.is_empty());
        assert!(told.iter().all(|it| (it.is, it.needed) == (32, 64)), "{told:?}");
    }

    #[test]
    fn what_makes_no_sense_says_nothing() {
        let bulk = |text: &str| Value::BulkString(text.into());
        for answer in [
            Value::Nil,
            Value::Array(vec![bulk("hash-max-listpack-value")]),
            Value::Array(vec![bulk("hash-max-listpack-value"), bulk("many")]),
            Value::Array(vec![bulk("maxmemory"), bulk("0")]),
        ] {
            assert_eq!(too_small(answer), []);
        }
    }
}

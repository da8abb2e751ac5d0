//! Checks whether a server stores buckets in the compact form.
//!
//! Redis stores a small hash as one piece of memory. Settings of the server say what is small.
//! With less than their defaults a client takes twice as much memory.

use redis::Value;

/// The pattern for `CONFIG GET` of the settings. Redis 6.2 has other names with the same
/// endings.
pub(super) const SETTINGS: &str = "hash-max-*";

/// The maximum length of a written value in bytes (`COMPACT` in the script), and the number of
/// fields that a bucket has before it is too large.
const NEEDED: [(&str, u64); 2] = [("-value", 64), ("-entries", 512)];

/// A setting that is too small.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooSmall {
    pub(super) setting: String,
    pub(super) is: u64,
    pub(super) needed: u64,
}

/// The settings that are too small, by the reply to `CONFIG GET`.
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
    // A server may report a setting under its old name, too.
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
    use crate::script::tests::Server;

    fn told(server: &mut Server) -> Vec<TooSmall> {
        let mut get = redis::cmd("CONFIG");
        too_small(get.arg("GET").arg(SETTINGS).query(&mut server.connection).unwrap())
    }

    #[test]
    fn settings_below_the_defaults_are_reported() {
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
    fn an_invalid_reply_reports_nothing() {
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

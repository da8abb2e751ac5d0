//! The variables of an environment, and what is found wrong in them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use super::forms;
use crate::config::Variables;

/// Variables of envoyproxy/ratelimit that have no effect here, and why.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "no fields are added to the stream"),
    ("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "the stream begins again after 1 to 10 s"),
    ("XDS_CLIENT_BACKOFF_", "the stream begins again after 1 to 10 s"),
    ("GRPC_SERVER_TLS_CA_CERT", "GRPC_CLIENT_TLS_CACERT demands certificates of clients"),
    ("GRPC_MAX_CONNECTION_AGE_GRACE", "calls in progress end"),
    ("DEBUG_HOST", "there is no listener for debugging"),
    ("DEBUG_PORT", "there is no listener for debugging"),
    ("USE_STATSD", "metrics are for Prometheus"),
    ("USE_DOG_STATSD", "metrics are for Prometheus"),
    ("STATSD_", "metrics are for Prometheus"),
    ("STATS_FLUSH_INTERVAL", "metrics are for Prometheus"),
    ("EXTRA_TAGS", "metrics are for Prometheus"),
    ("DISABLE_STATS", "metrics are for Prometheus"),
    ("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "times are in seconds"),
    ("RUNTIME_IGNOREDOTFILES", "names that begin with a dot are always left out"),
    ("RUNTIME_WATCH_ROOT", "the directory is always watched"),
    ("EXPIRATION_JITTER_MAX_SECONDS", "counters expire by themselves"),
    ("LOCAL_CACHE_SIZE_IN_BYTES", "refusals are always remembered"),
    ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "counters have a bound"),
    ("REDIS_TIMEOUT", "a decision waits for at most 20 ms"),
    ("REDIS_POOL_", "each worker has one connection to a server"),
    ("REDIS_PIPELINE_", "commands are always sent together"),
    ("REDIS_CLUSTER_PIPELINE_PARALLELISM", "commands are always sent together"),
    ("REDIS_PERSECOND", "all counters are in the same servers"),
    ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "the service is healthy without Redis"),
    ("REDIS_STARTUP_", "the service does not wait for Redis"),
    ("MEMCACHE_", "counters are in Redis or in memory"),
    ("TRACING_", "calls of the service have no spans"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "calls of the service have no spans"),
];

/// The variables of an environment.
#[derive(Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// The parts of variables that are secret.
    pub secrets: Variables,
    /// What is to be known.
    pub notes: Vec<String>,
    /// What cannot be done.
    pub mistakes: Vec<String>,
}

impl Environment {
    /// These variables. An empty value counts as absent, as in envoyproxy/ratelimit.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let given = variables.into_iter().filter(|(_, value)| !value.is_empty());
        Self { variables: given.collect(), ..Self::default() }
    }

    /// The value of a variable.
    pub fn text(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    /// The value of a variable, or another one.
    pub fn text_or(&self, name: &str, usual: &str) -> String {
        self.text(name).unwrap_or_else(|| usual.to_owned())
    }

    /// Whether a variable is set and true.
    pub fn is_set(&mut self, name: &str) -> bool {
        self.read(name, "write true or false", forms::boolean).unwrap_or(false)
    }

    /// A duration as Go writes it.
    pub fn duration(&mut self, name: &str) -> Option<Duration> {
        self.read(name, "write a duration like 1h30m", forms::duration)
    }

    /// A number.
    pub fn number(&mut self, name: &str) -> Option<u64> {
        self.read(name, "write a number", |text| text.parse().ok())
    }

    /// One of these words, in small or capital letters. Returns the word in small letters.
    pub fn word(&mut self, name: &str, words: &[&str]) -> Option<String> {
        let advice = format!("write one of: {}", words.join(", "));
        let known = |text: &str| {
            let text = text.to_ascii_lowercase();
            words.contains(&&*text).then_some(text)
        };
        self.read(name, &advice, known)
    }

    fn read<T>(
        &mut self,
        name: &str,
        advice: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.variables.get(name)?;
        let read = read(text);
        if read.is_none() {
            self.mistake(format!("the value of {name} cannot be used: {advice}"));
        }
        read
    }

    /// Something cannot be done.
    pub fn mistake(&mut self, what: impl Display) {
        self.mistakes.push(what.to_string());
    }

    /// Something is to be known.
    pub fn note(&mut self, what: impl Display) {
        self.notes.push(what.to_string());
    }

    /// Keeps a secret part of a variable, and returns how a configuration refers to it.
    pub fn secret(&mut self, name: &str, value: &str) -> String {
        if self.variables.get(name).is_none_or(|it| it != value) {
            self.secrets.insert(name.to_owned(), value.to_owned());
        }
        format!("${{{name}}}")
    }

    /// Notes the variables without an effect.
    pub fn note_unused(&mut self) {
        for name in self.variables.keys() {
            let is_meant =
                |it: &&(&str, &str)| match it.0.ends_with('_') || it.0 == "REDIS_PERSECOND" {
                    true => name.starts_with(it.0),
                    false => name == it.0,
                };
            if let Some((_, why)) = WITHOUT_EFFECT.iter().find(is_meant) {
                self.notes.push(format!("{name} has no effect: {why}"));
            }
        }
    }
}

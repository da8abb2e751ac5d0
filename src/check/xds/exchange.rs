//! What is said on a stream, and which rules are in use. Pure: this module does no I/O, and the
//! time comes in.
//!
//! - Each stream begins with an empty version and an empty nonce. A server that has restarted may
//!   number its versions from 1 again. If this node named the version of the server before, and the
//!   new server had the same number, the server would send nothing.
//! - A response is the whole state of the server. The answer names its nonce, and the last version
//!   of this stream that was taken.
//! - A server that has restarted may tell its state bit by bit. For [`KEPT`] after the first
//!   response of another stream, domains that are missing stay as they were before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::messages::{DiscoveryRequest, Node};
use crate::check::rls::Domains;
use crate::grpc::authorization::Status;

/// The type of the resources.
pub const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";
/// How long domains that a server has not told again stay in use.
pub const KEPT: Duration = Duration::from_secs(30);
/// The code of gRPC for a message with a mistake.
const INVALID_ARGUMENT: i32 = 3;
/// The longest wait before the same version is rejected again.
const MAX_PATIENCE: Duration = Duration::from_secs(10);

/// One stream.
#[derive(Debug)]
pub struct Exchange {
    /// The last version of this stream that was taken. Empty: none.
    version: String,
    /// The rules in use before the stream, while domains of them are kept.
    before: Option<Arc<Domains>>,
    /// What the server has told last.
    told: Option<Arc<Domains>>,
    /// Until when rules of before are kept. None: no response was taken yet.
    kept_until: Option<Instant>,
    /// The version that was rejected last, and how often it was.
    rejected: Option<(String, u32)>,
}

impl Exchange {
    /// A stream that begins while these rules are in use.
    pub const fn new(before: Option<Arc<Domains>>) -> Self {
        Self { version: String::new(), before, told: None, kept_until: None, rejected: None }
    }

    /// The first request of this client.
    pub fn first(&self, node: Node) -> DiscoveryRequest {
        DiscoveryRequest { node: Some(node), ..request() }
    }

    /// The server has these domains now. Returns the rules that are to be in use.
    pub fn take(&mut self, told: Domains, now: Instant) -> Arc<Domains> {
        let told = Arc::new(told);
        self.told = Some(Arc::clone(&told));
        let kept_until = *self.kept_until.get_or_insert(now + KEPT);
        match &self.before {
            Some(before) if now < kept_until && before.names().any(|it| !told.contains(it)) => {
                Arc::new(told.with_missing(before))
            }
            _ => {
                self.before = None;
                told
            }
        }
    }

    /// When domains that the server has not told again are to be forgotten. None: there are none.
    pub fn forgets_at(&self) -> Option<Instant> {
        self.kept_until.filter(|_| self.before.is_some())
    }

    /// The domains that the server has not told again are no longer kept. Returns the rules that
    /// are to be in use.
    pub fn forget(&mut self) -> Option<Arc<Domains>> {
        self.before = None;
        self.told.clone()
    }

    /// The answer to a response that was taken.
    pub fn taken(&mut self, version: String, nonce: String) -> DiscoveryRequest {
        self.rejected = None;
        self.version.clone_from(&version);
        DiscoveryRequest { version_info: version, response_nonce: nonce, ..request() }
    }

    /// The answer to a response that was rejected for this reason, and how long it is to wait: a
    /// server may send the same version again at once, each time that it is rejected.
    pub fn rejected(
        &mut self,
        version: &str,
        nonce: String,
        why: String,
    ) -> (DiscoveryRequest, Duration) {
        let times = match self.rejected.take() {
            Some((before, times)) if before == version => times + 1,
            _ => 0,
        };
        self.rejected = Some((version.to_owned(), times));
        let wait = match times {
            0 => Duration::ZERO,
            _ => Duration::from_secs(1 << (times - 1).min(6)).min(MAX_PATIENCE),
        };
        let status = Status { code: INVALID_ARGUMENT, message: why };
        let answer = DiscoveryRequest {
            version_info: self.version.clone(),
            response_nonce: nonce,
            error_detail: Some(status),
            ..request()
        };
        (answer, wait)
    }
}

fn request() -> DiscoveryRequest {
    DiscoveryRequest { type_url: TYPE_URL.to_owned(), ..DiscoveryRequest::default() }
}

/// How long to wait before the next stream. `failures` are the streams without a response since the
/// last one with any, and `random` is a number from 0 to 1.
pub fn wait_before(failures: u32, random: f64) -> Duration {
    let longest = 2_u32.saturating_pow(failures.min(4) + 1).min(10);
    let seconds = 1.0 + (f64::from(longest) - 1.0) * random;
    Duration::from_secs_f64(seconds)
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::monotonic;

    use super::*;
    use crate::check::rls::Level;

    fn domains(names: &[&str]) -> Domains {
        Domains::new(names.iter().map(|name| (Box::from(*name), Level::default())))
    }

    fn names(domains: &Domains) -> Vec<&str> {
        let mut names: Vec<&str> = domains.names().collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn each_stream_begins_with_nothing_and_answers_name_their_response() {
        let mut stream = Exchange::new(Some(Arc::new(domains(&["a"]))));
        let first = stream.first(Node::default());
        assert_eq!((&*first.version_info, &*first.response_nonce), ("", ""));
        assert_eq!(first.type_url, TYPE_URL);
        assert!(first.node.is_some());
        // Nothing was taken on this stream, so no version is named.
        let (answer, _) = stream.rejected("7", "n1".to_owned(), "why".to_owned());
        assert_eq!((&*answer.version_info, &*answer.response_nonce), ("", "n1"));
        assert_eq!(answer.error_detail.map(|it| (it.code, it.message)), Some((3, "why".into())));
        let answer = stream.taken("8".to_owned(), "n2".to_owned());
        assert_eq!((&*answer.version_info, &*answer.response_nonce), ("8", "n2"));
        assert!(answer.error_detail.is_none() && answer.node.is_none());
        let (answer, _) = stream.rejected("9", "n3".to_owned(), "why".to_owned());
        assert_eq!((&*answer.version_info, &*answer.response_nonce), ("8", "n3"));
    }

    #[test]
    fn the_same_version_is_rejected_ever_more_slowly() {
        let mut stream = Exchange::new(None);
        let mut wait =
            |version: &str| stream.rejected(version, String::new(), String::new()).1.as_secs();
        let waits: Vec<u64> = (0..7).map(|_| wait("1")).collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 10, 10]);
        assert_eq!((wait("2"), wait("2")), (0, 1));
        stream.taken("3".to_owned(), String::new());
        assert_eq!(stream.rejected("2", String::new(), String::new()).1, Duration::ZERO);
    }

    #[test]
    fn a_response_is_the_whole_state_but_for_a_time_after_a_reconnect() {
        let now = monotonic();
        let after = |seconds| now + Duration::from_secs(seconds);
        let mut stream = Exchange::new(None);
        assert_eq!(names(&stream.take(domains(&["a", "b"]), now)), ["a", "b"]);
        let in_use = stream.take(domains(&["b", "c"]), now);
        assert_eq!((names(&in_use), stream.forgets_at()), (vec!["b", "c"], None));
        let mut stream = Exchange::new(Some(in_use));
        assert_eq!(stream.forgets_at(), None);
        // The time begins with the first response.
        assert_eq!(names(&stream.take(domains(&["c"]), after(100))), ["b", "c"]);
        assert_eq!(stream.forgets_at(), Some(after(130)));
        assert_eq!(names(&stream.take(domains(&["d"]), after(129))), ["b", "c", "d"]);
        assert_eq!(stream.forgets_at(), Some(after(130)));
        assert_eq!(stream.forget().map(|it| names(&it).join(" ")), Some("d".to_owned()));
        assert_eq!(stream.forgets_at(), None);
        assert_eq!(names(&stream.take(domains(&["e"]), after(131))), ["e"]);
        // All domains have come back: there is nothing to forget.
        let mut stream = Exchange::new(Some(Arc::new(domains(&["a"]))));
        assert_eq!(names(&stream.take(domains(&["a", "b"]), now)), ["a", "b"]);
        assert_eq!(stream.forgets_at(), None);
        assert_eq!(names(&stream.take(domains(&[]), after(31))), [""; 0]);
    }

    #[test]
    fn the_next_stream_begins_after_1_to_10_seconds() {
        for failures in [0, 1, 2, 5, u32::MAX] {
            assert_eq!(wait_before(failures, 0.0), Duration::from_secs(1));
        }
        let longest = [0, 1, 2, 3, 9].map(|failures| wait_before(failures, 1.0).as_secs());
        assert_eq!(longest, [2, 4, 8, 10, 10]);
    }
}

//! What a line of an access log says about one request.

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;

/// The result of reading one line.
#[expect(clippy::large_enum_variant, reason = "a box for each line would cost more")]
#[derive(Debug)]
pub(crate) enum Parsed<'l> {
    /// The line describes a request.
    Request(Line<'l>),
    /// The line is well formed and describes no request, such as a comment or a connection
    /// that sent no request line.
    NoRequest,
    /// The writer of the log says that it has dropped this many lines.
    Dropped(u64),
}

/// One request. It borrows the text of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'l> {
    /// The time in the line.
    pub(crate) time: Moment,
    /// Which moment of the request that time is.
    pub(crate) mark: Mark,
    /// From the arrival to the end of the response, in microseconds.
    pub(crate) duration_us: Option<u64>,
    /// The client.
    pub(crate) client: Option<Client>,
    /// Whether it is the last one of a list of addresses that the log has in its place.
    pub(crate) is_client_of_list: bool,
    /// The method.
    pub(crate) method: Cow<'l, [u8]>,
    /// The path and the query.
    pub(crate) target: Cow<'l, [u8]>,
    /// The host.
    pub(crate) host: Option<Cow<'l, [u8]>>,
    /// The status of the response. 0 if it is not known.
    pub(crate) status: u16,
    /// The bytes of the response.
    pub(crate) bytes: Option<u64>,
    /// The bytes of the request's body.
    pub(crate) request_bytes: Option<u64>,
    /// Fields of the request's header.
    pub(crate) headers: Headers<'l>,
    /// How many of 100 such requests the log has, if it is a sample.
    pub(crate) sample: Option<u64>,
    /// What our own log says of the decision, if it has keys.
    pub(crate) known: Option<Box<Known<'l>>>,
}

/// What our own log says of a decision: all that it depends on, and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known<'l> {
    /// Whose counters were charged how much, in the order of the policies.
    pub(crate) keys: SmallVec<[KnownKey<'l>; 2]>,
    /// When the cost was settled, in microseconds since the epoch.
    pub(crate) settled_us: Option<u64>,
    /// The word for the decision, or for the failure that followed it.
    pub(crate) outcome: Cow<'l, [u8]>,
    /// Whether an access list has denied the request.
    pub(crate) is_denied_by_list: bool,
    /// What remained to the policy whose numbers the client was told.
    pub(crate) remaining: Option<u64>,
    /// Whether a server was asked.
    pub(crate) is_by_server: bool,
}

/// What one policy has charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownKey<'l> {
    /// The name of the policy.
    pub(crate) policy: Cow<'l, [u8]>,
    /// The id of the client.
    pub(crate) id: &'l [u8],
    /// The units that the request costs.
    pub(crate) cost: u64,
    /// The plan whose limit held.
    pub(crate) plan: Option<Cow<'l, [u8]>>,
    /// The limit of this client alone, and its window in microseconds.
    pub(crate) limit: Option<u64>,
    pub(crate) window_us: Option<u64>,
    /// The units that it has cost in the end.
    pub(crate) settled: Option<u64>,
    /// Whether the request was admitted beyond the limit, because the upstream had room.
    pub(crate) is_elastic: bool,
    /// Whether it counted as a preflight.
    pub(crate) is_preflight: bool,
}

/// Names and values of header fields.
pub(crate) type Headers<'l> = SmallVec<[(Cow<'l, [u8]>, Cow<'l, [u8]>); 3]>;

/// Which moment of a request a log notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The arrival.
    Start,
    /// The end of the response.
    End,
}

/// A time in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Microseconds since the epoch.
    pub(crate) us: u64,
    /// Whether the log notes whole seconds only.
    pub(crate) is_whole_second: bool,
}

/// The address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// The address. If it is masked, the first one of its network.
    pub(crate) address: IpAddr,
    /// Whether the log shows the network only, as in `203.0.113.0/24`.
    pub(crate) is_masked: bool,
}

impl<'l> Line<'l> {
    /// A line with this time and nothing else.
    pub(super) fn at(time: Moment, mark: Mark) -> Self {
        Self {
            time,
            mark,
            duration_us: None,
            client: None,
            is_client_of_list: false,
            method: Cow::Borrowed(b""),
            target: Cow::Borrowed(b""),
            host: None,
            status: 0,
            bytes: None,
            request_bytes: None,
            headers: Headers::new(),
            sample: None,
            known: None,
        }
    }

    /// Adds a header field, unless the log writes `-` because there is none, or hides its value.
    pub(super) fn header(&mut self, name: &'static str, value: Cow<'l, [u8]>) {
        if !lacks_field(&value) {
            self.headers.push((Cow::Borrowed(name.as_bytes()), value));
        }
    }

    /// The result: a request if there are a method and a target. Most writers put `-` in the place
    /// of what is not there, also of a host.
    pub(super) fn parsed(mut self) -> Parsed<'l> {
        if is_nothing(&self.method) || is_nothing(&self.target) {
            return Parsed::NoRequest;
        }
        self.host = self.host.filter(|host| !is_nothing(host));
        Parsed::Request(self)
    }
}

/// Whether a log has no value of a header field.
pub(super) fn lacks_field(value: &[u8]) -> bool {
    is_nothing(value) || is_redacted(value)
}

/// Whether Caddy or Traefik has written this instead of a secret.
pub(super) fn is_redacted(value: &[u8]) -> bool {
    value == b"REDACTED"
}

/// Whether a writer has left this value out.
fn is_nothing(value: &[u8]) -> bool {
    matches!(value, b"-" | b"")
}

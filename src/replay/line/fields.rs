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
            method: Cow::Borrowed(b""),
            target: Cow::Borrowed(b""),
            host: None,
            status: 0,
            bytes: None,
            request_bytes: None,
            headers: Headers::new(),
        }
    }

    /// Adds a header field, unless the log writes `-` because there is none.
    pub(super) fn header(&mut self, name: &'static str, value: Cow<'l, [u8]>) {
        if !matches!(&*value, b"-" | b"") {
            self.headers.push((Cow::Borrowed(name.as_bytes()), value));
        }
    }

    /// The result: a request if there are a method and a target.
    pub(super) fn parsed(self) -> Parsed<'l> {
        if self.method.is_empty() || self.target.is_empty() {
            Parsed::NoRequest
        } else {
            Parsed::Request(self)
        }
    }
}

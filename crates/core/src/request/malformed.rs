//! The errors of bytes that are not a request.

/// The reason why bytes are not a request, or not one that the gateway accepts.
///
/// All of these errors concern a single connection. [`Ambiguity`](super::Ambiguity)
/// contains the errors of requests that other systems may interpret differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// RFC 9112, section 3.
    #[error("the request line is not a method, a target and a version, with one space between")]
    BadRequestLine,
    /// RFC 9110, section 9.1: a token. `get` is not `GET`, but some backends treat it as
    /// `GET`.
    #[error("the request's method is not one; methods are written in capitals, like GET")]
    BadMethod,
    /// RFC 9112, section 3.2: no blanks, no fragment, nothing that must be escaped.
    #[error("the request's target has a character that must be escaped")]
    BadTarget,
    /// RFC 9110, section 15.6.6.
    #[error("the request's version is not one that the gateway speaks: use HTTP/1.1")]
    BadVersion,
    /// RFC 9112, section 3: longer than the listener's `max_target_size`.
    #[error("the request's target is longer than the gateway allows")]
    TargetTooLong,
    /// RFC 6585, section 5: more bytes than the listener's `max_head_size`.
    #[error("the request's head is larger than the gateway allows")]
    HeadTooLarge,
    /// RFC 6585, section 5: more fields than the listener's `max_headers`.
    #[error("the request has more header fields than the gateway allows")]
    TooManyFields,
    /// The head took longer than the listener's `timeouts.request_head`.
    #[error("the request's head did not arrive in time")]
    HeadTooLate,
    /// RFC 9112, section 2.2: a CR that no LF follows.
    #[error("the request's head has a carriage return that ends no line")]
    BareCr,
    /// RFC 9110, section 5.5: NUL and similar characters.
    #[error("a header field has a control character in it")]
    ControlCharacter,
    /// RFC 9112, section 5: no name, no colon, or a name that is not a token.
    #[error("a line of the request's head is not a field name, a colon and a value")]
    BadField,
    /// RFC 9112, section 5.1.
    #[error("a header field has a blank in its name or before its colon")]
    BlankInName,
    /// RFC 9113, section 8.2.1.
    #[error("a header field's value begins or ends with a blank")]
    BlankAroundValue,
    /// RFC 9112, sections 2.2 and 5.2: a line that begins with a blank.
    #[error("a line of the request's head begins with a blank")]
    Folded,
    /// `Content_Length`, `X.Forwarded.For`: some backends treat them as the names with `-`
    /// (RFC 3875, section 4.1.18).
    #[error(
        "a header field has a name that some servers take for another one: write it with \
         dashes"
    )]
    DisguisedName,
    /// RFC 9112, section 6.1: a request with both may be an attempt of request smuggling.
    #[error("the request has both Content-Length and Transfer-Encoding")]
    TwoFramings,
    /// RFC 9110, section 8.6: decimal digits and nothing else.
    #[error("the request's Content-Length is not a number that the gateway can count to")]
    BadLength,
    /// RFC 9110, section 8.6: repeated values may be refused, equal or not.
    #[error("the request has more than one Content-Length")]
    ManyLengths,
    /// RFC 9112, section 6.1: `chunked`, once, and no other.
    #[error("the request has a transfer coding other than one `chunked`")]
    BadCoding,
    /// RFC 9112, section 6.1: HTTP/1.0 has no transfer codings.
    #[error("a request of HTTP/1.0 cannot have a transfer coding")]
    CodingInOldVersion,
    /// RFC 9112, section 7.1.
    #[error("the request's body is not made of well-formed chunks")]
    BadChunk,
    /// RFC 9112, section 7.1.1.
    #[error("the chunks of the request's body have larger extensions than the gateway allows")]
    ExtensionsTooLarge,
    /// RFC 9112, section 7.1.2.
    #[error("the request's body ends in a line that is not a trailer field")]
    BadTrailer,
    /// RFC 9112, section 7.1.2: the bounds of a head hold for trailers, too.
    #[error("the request has more trailer fields than the gateway allows")]
    TrailersTooLarge,
}

impl Malformed {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadRequestLine => "bad_request_line",
            Self::BadMethod => "bad_method",
            Self::BadTarget => "bad_target",
            Self::BadVersion => "bad_version",
            Self::TargetTooLong => "target_too_long",
            Self::HeadTooLarge => "head_too_large",
            Self::TooManyFields => "too_many_fields",
            Self::HeadTooLate => "head_too_late",
            Self::BareCr => "bare_cr",
            Self::ControlCharacter => "control_character",
            Self::BadField => "bad_field",
            Self::BlankInName => "blank_in_name",
            Self::BlankAroundValue => "blank_around_value",
            Self::Folded => "folded",
            Self::DisguisedName => "disguised_name",
            Self::TwoFramings => "two_framings",
            Self::BadLength => "bad_length",
            Self::ManyLengths => "many_lengths",
            Self::BadCoding => "bad_coding",
            Self::CodingInOldVersion => "coding_in_old_version",
            Self::BadChunk => "bad_chunk",
            Self::ExtensionsTooLarge => "extensions_too_large",
            Self::BadTrailer => "bad_trailer",
            Self::TrailersTooLarge => "trailers_too_large",
        }
    }
}

//! Bounds of HTTP/2 connections to endpoints.

use crate::message::{MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES};
use crate::server::FieldBounds;

/// The most requests on one connection. Further requests open another connection.
pub const MAX_STREAMS: u32 = 100;
/// Bytes that an endpoint may send on one stream before the client has read them.
pub const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// Bytes that it may send on all streams of a connection. They are more than the sum of all stream
/// windows, so that clients that do not read cannot block the streams of others.
///
/// A frame of DATA that waits for its client costs memory beside its bytes. The library counts
/// [`FRAME_COST`] less the length for each, and ends the connection if the sum is more than a half of
/// this window. So the windows of all streams may be full of frames of [`SMALL_FRAME_BYTES`].
pub const CONNECTION_WINDOW_BYTES: u32 =
    2 * MAX_STREAMS * (STREAM_WINDOW_BYTES / SMALL_FRAME_BYTES) * (FRAME_COST - SMALL_FRAME_BYTES);
const FRAME_COST: u32 = 256;
const SMALL_FRAME_BYTES: u32 = 64;
const _: () = assert!(CONNECTION_WINDOW_BYTES > MAX_STREAMS * STREAM_WINDOW_BYTES);
/// Bytes of an upload that are buffered while the endpoint does not read.
pub const MAX_SEND_BYTES: usize = 64 * 1024;
/// The bounds of the head of a response and of its trailers.
pub const RESPONSE: FieldBounds =
    FieldBounds { fields: MAX_RESPONSE_FIELDS, bytes: MAX_RESPONSE_HEAD_BYTES };
/// The size from which on the library leaves out fields of heads and trailers. It rejects such a head,
/// but it takes such trailers for whole. So the bound is above [`RESPONSE`].
pub const LIBRARY_HEAD_BYTES: u32 = 128 * 1024;
/// Streams that are remembered after a reset: frames that the endpoint has sent before
/// it received the reset are ignored.
pub const MAX_RESET_STREAMS: usize = 1000;

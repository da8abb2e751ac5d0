//! The frames of messages ("gRPC over HTTP2", the project's `doc/PROTOCOL-HTTP2.md`). No message is
//! compressed.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message;

/// A byte that says whether the message is compressed, and its length.
pub const PREFIX_BYTES: usize = 5;

/// Why bytes are not the frame of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The message has more bytes than it may have, which is this number.
    #[error("the message has more than {0} bytes")]
    TooLarge(usize),
    /// The message is compressed.
    #[error("messages must not be compressed")]
    Compressed,
    /// There is no message, a part of one, or several.
    #[error("the call does not have one message")]
    NotOne,
}

/// The length of the message behind this prefix.
///
/// # Errors
/// If it has more than `most_bytes`, or is compressed.
pub fn length_of(
    [compressed, length @ ..]: [u8; PREFIX_BYTES],
    most_bytes: usize,
) -> Result<usize, FrameError> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    match compressed {
        0 if length <= most_bytes => Ok(length),
        0 => Err(FrameError::TooLarge(most_bytes)),
        _ => Err(FrameError::Compressed),
    }
}

/// The bytes of the only message in a body.
///
/// # Errors
/// If it has more than `most_bytes`, is compressed, or is not the only one.
pub fn one_message(mut body: Bytes, most_bytes: usize) -> Result<Bytes, FrameError> {
    let prefix = body.first_chunk().ok_or(FrameError::NotOne)?;
    let length = length_of(*prefix, most_bytes)?;
    body.advance(PREFIX_BYTES);
    if length == body.len() { Ok(body) } else { Err(FrameError::NotOne) }
}

/// A message in its frame.
pub fn frame(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.encoded_len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    message.encode(&mut frame).expect("a buffer that grows has room");
    frame.freeze()
}

//! What both sides of gRPC need: the frames of messages, and the messages of Envoy that the gateway
//! answers and asks with. The files in `../check/grpc/proto` describe the messages in the language
//! of Protocol Buffers, and a test holds them to these files.

#[allow(unreachable_pub, reason = "the derived code needs public names")]
pub mod authorization;
#[allow(unreachable_pub, reason = "the derived code needs public names")]
pub mod core;
mod frame;

pub use frame::{FrameError, PREFIX_BYTES, frame, length_of, one_message};

//! Compression of responses: which responses are compressed, and what their heads say then. Pure.

mod accept;
mod eligible;
mod encoder;
mod head;
mod settings;
mod stream;

pub use accept::accepted;
pub use eligible::Fate;
pub use head::{weaken_etag, write_encoding, write_vary};
pub use settings::{CompressSettings, Encoding, MediaRange};
pub use stream::{Compressor, Piece};

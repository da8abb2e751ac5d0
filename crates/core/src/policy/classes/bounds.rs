//! The bounds of classes.

/// The most classes.
pub const MAX_CLASSES: usize = 256;
/// The most texts of all classes together.
pub const MAX_TEXTS: usize = 4096;
/// The longest text, in bytes.
pub const MAX_TEXT_BYTES: usize = 128;
/// The longest name of a class, in bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// How many bytes of a `User-Agent` are searched.
pub const MAX_SEARCHED: usize = 2048;

//! What the configuration guarantees as a whole; single mistakes have golden
//! files in `tests/config`.

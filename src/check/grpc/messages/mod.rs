//! The messages of the services, with the fields that are used, besides those of `crate::grpc`. The
//! files in `../proto` describe them in the language of Protocol Buffers, and a test holds them to
//! these files.
#![allow(unreachable_pub, reason = "the derived code needs public names")]

pub mod ratelimit;
pub mod reflection;
#[cfg(test)]
mod tests;
pub mod values;

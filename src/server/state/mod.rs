//! The state of a connection: what the parts that serve it tell each other.

pub mod activity;
mod body_memory;
mod client_body;
pub mod exchange;
pub mod head_lines;
mod held_body;
pub mod interim;
mod link;
mod pace;
mod peer;
mod place;
pub mod progress;
mod responses;
pub mod streams;
pub mod tracked_body;

pub use body_memory::{BodyMemory, MemoryPart, USUAL_BODY_MEMORY};
pub use client_body::{ClientBody, ClientBodyError};
pub use head_lines::HeadLines;
pub use held_body::{HeldBody, NoMemory};
pub use interim::Interim;
pub use link::ClientLink;
pub use pace::Pace;
pub use peer::Peer;
pub use place::Place;

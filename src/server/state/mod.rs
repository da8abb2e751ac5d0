//! The state of a connection: what the parts that serve it tell each other.

pub(super) mod activity;
mod client_body;
pub(super) mod exchange;
pub(super) mod head_lines;
pub(super) mod interim;
mod link;
mod pace;
mod peer;
mod place;
pub(super) mod progress;
mod responses;
pub(super) mod streams;
pub(super) mod tracked_body;

pub(crate) use client_body::ClientBody;
pub(crate) use head_lines::HeadLines;
pub(crate) use interim::Interim;
pub(crate) use link::ClientLink;
pub(crate) use pace::Pace;
pub(crate) use peer::Peer;
pub(crate) use place::Place;

//! The heaviest clients of each policy, minute by minute.
//!
//! Each worker counts its own requests in sketches (`sketch`), and hands them over once a
//! minute. While the lists are read, it also shows the minute in progress, once a
//! second. The history keeps ten minutes. A client that makes more than 1/128 of a policy's
//! requests in a minute, admitted or refused, is in its list. Memory is bounded: it depends
//! on the number of policies and workers, and not on the number of clients.

mod history;
mod merged;
mod sketch;
mod worker;

pub(crate) use history::TopHistory;
pub(crate) use merged::{Merged, Streams, TopList};
pub(crate) use sketch::Entry as TopEntry;
pub(crate) use worker::WorkerTop;

/// A text that describes a client without identifying a person.
type Text = Box<str>;

/// The sketches of all policies in one minute, by the policies' names.
type Counted = std::collections::HashMap<Box<str>, Sketches>;

/// The sketches of one policy in one minute.
#[derive(Clone, Debug, Default)]
struct Sketches {
    admitted: sketch::Sketch<Text>,
    refused: sketch::Sketch<Text>,
}

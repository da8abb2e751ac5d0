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
mod text;
mod worker;

pub use history::TopHistory;
pub use merged::{Merged, Streams, TopList};
pub use sketch::Entry as TopEntry;
pub use worker::WorkerTop;

use text::ClientText;

/// The sketches of all policies in one minute, by the policies' names. There are few policies, and
/// their names are not chosen by clients.
type Counted = std::collections::BTreeMap<Box<str>, Sketches>;

/// The sketches of one policy in one minute.
#[derive(Clone, Debug, Default)]
pub struct Sketches {
    admitted: sketch::Sketch<ClientText>,
    refused: sketch::Sketch<ClientText>,
}

impl Sketches {
    /// Forgets the whole keys.
    fn forget_whole(&mut self) {
        let texts = self.admitted.texts_mut().chain(self.refused.texts_mut());
        texts.for_each(|text| text.whole = None);
    }
}

//! The heaviest clients of each policy, minute by minute.
//!
//! Each worker counts its own requests in sketches (`sketch`), and hands them over once a
//! minute. While the lists are read, it also shows the minute in progress, once a
//! second. The history keeps ten minutes. A client that makes more than 1/128 of a policy's
//! requests in a minute, admitted or refused, is in its list. Memory is bounded: it depends
//! on the number of policies and workers, and not on the number of clients.

mod counted;
mod history;
mod merged;
mod sketch;
mod text;
mod worker;

pub use history::TopHistory;
pub use merged::{Merged, Streams, TopList};
pub use sketch::Entry as TopEntry;
pub use text::ClientText;
pub use worker::{WorkerTop, chosen_plan};

use counted::{Counted, Sketches};

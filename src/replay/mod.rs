//! What the limits of a configuration would have done to the requests of a log.
//!
//! Lines of access logs become [`RequestView`](tollgate_core::request::RequestView)s in
//! the order of their arrivals. The decision code of the gateway judges them over a memory
//! store, at the times of the log. Nothing is sent anywhere, and no clock is read. Memory is
//! bounded: by what waits for its turn, by the keys of the store, and by the sets that count
//! keys.
//!
//! A replay assumes that clients would have sent the same requests.

mod compare;
mod conclude;
mod document;
mod entry;
mod exceeding;
mod facts;
mod foreseen;
mod html;
mod key_table;
mod keys;
mod known_entry;
mod lacks;
mod layout;
mod line;
mod pass;
mod peaks;
mod rate;
mod refused;
mod report;
mod run;
mod series;
mod source;
mod suggest;
mod suggested;
mod table;
mod tally;
mod timeline;
mod trial;
mod wanted;
mod words;

pub(crate) use html::page;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use line::fuzzing;
pub(crate) use line::{Format, MapError, Names};
pub(crate) use report::Report;
pub(crate) use run::{Job, ReplayError, replay};
pub(crate) use source::Input;
pub(crate) use table::text;
pub(crate) use trial::Setup;

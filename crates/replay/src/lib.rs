//! `tollgate replay`: what the limits of a configuration would have done to the requests of a log.
//!
//! This crate is a part of the gateway `tollgate`. It is not published, and its interface may
//! change in any commit. It is for engineers who change which logs are read, how limits are tried
//! on them, or what is reported. It knows no configuration and no code of the gateway: a [`Setup`]
//! has the routes and the policies, as [`tollgate_core`] has them.
//!
//! [`replay`] gives a [`Report`], which is JSON, a [`text`] or a [`page`] in HTML. Lines of access
//! logs become [`RequestView`](tollgate_core::request::RequestView)s in the order of their
//! arrivals. The decision code of the gateway judges them over a memory store, at the times of the
//! log. Nothing is sent anywhere, and no clock is read. Memory is bounded: by what waits for its
//! turn, by the keys of the store, and by the sets that count keys.
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
mod lacking;
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

pub use html::page;
#[cfg(any(test, feature = "testing"))]
pub use line::fuzzing;
pub use line::{Format, MapError, Names};
pub use pass::Progress;
pub use report::Report;
pub use run::{Job, ReplayError, replay};
pub use source::{Input, SourceError};
pub use table::text;
pub use trial::Setup;

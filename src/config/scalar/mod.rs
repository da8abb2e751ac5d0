//! Values that are written as one text: limits, durations, sizes, addresses, keys, names.
//!
//! [`FromStr`](std::str::FromStr) reads each of them, so that the command line accepts the same
//! forms as the file, with the same messages for mistakes.

mod address;
mod collector;
mod date;
mod document_url;
mod duration;
mod endpoint;
mod form;
mod grammars;
mod http_names;
mod limit;
mod location;
mod number;
mod percent;
mod rate;
mod retry;
mod share;
mod size;
mod target;
mod telemetry;
mod text;

pub(super) use address::Cidr;
pub use address::ListenAddress;
pub(super) use collector::CollectorUrl;
pub(super) use date::Date;
pub(super) use document_url::DocumentUrl;
pub(super) use duration::Period;
pub use endpoint::Endpoint;
pub use grammars::KeyWord;
pub(super) use grammars::{HostText, PathText, PlaceCode, PointerText};
pub(super) use http_names::{FieldName, FieldValue, MethodName};
pub use limit::KeyLimit;
pub(super) use limit::{Allowance, Limit};
pub(super) use location::{HostAndPort, LocationText, PrefixText};
pub(super) use percent::Percent;
pub use rate::Rate;
pub(super) use retry::RetryOn;
pub(super) use share::Share;
pub(super) use size::Size;
pub(super) use target::{ServerNameText, TargetText};
pub(super) use telemetry::{Level, LineForm, Off, OutputPath, Workers};
pub use text::ScalarError;

#[cfg(test)]
mod tests;

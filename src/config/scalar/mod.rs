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
mod fallback;
mod form;
mod grammars;
mod grpc_url;
mod http_names;
mod limit;
mod location;
mod lone_key;
mod media;
mod origin;
mod percent;
mod price;
mod question_url;
mod rate;
mod retry;
mod share;
mod size;
mod target;
mod telemetry;
mod text;

pub use address::Cidr;
pub use address::ListenAddress;
pub use collector::CollectorUrl;
pub use date::Date;
pub use document_url::DocumentUrl;
pub use duration::Period;
pub use endpoint::Endpoint;
pub use fallback::FallbackOn;
pub use grammars::KeyWord;
pub use grammars::{HostText, PathText, PlaceCode, PointerText};
pub use grpc_url::GrpcUrl;
pub use http_names::{FieldName, FieldValue, ListName, MatchText, MethodName};
pub use limit::{Allowance, KeyLimit, Limit};
pub use location::{HostAndPort, LocationText, PrefixText};
pub use lone_key::LoneKey;
pub use media::{MediaType, NoDefault};
pub use origin::OriginText;
pub use percent::{Percent, Weight};
pub use price::{CurrencyText, ModelText, PriceText};
pub use question_url::QuestionUrl;
pub use rate::Rate;
pub use retry::RetryOn;
pub use share::Share;
pub use size::Size;
pub use target::{ServerNameText, TargetText};
pub use telemetry::{Level, LineForm, Off, OutputPath, Workers};
pub use tollgate_core::scalar::ScalarError;

#[cfg(test)]
mod tests;

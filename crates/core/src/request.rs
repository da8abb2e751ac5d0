//! The view of a request that policies and routes use. It borrows the request.
//!
//! Only a request with one meaning has a view. A request that backends might interpret
//! differently (two hosts, dot segments, an invalid escape) is refused here, before a
//! policy or route uses it.

mod address;
mod ambiguity;
mod content;
mod disguise;
mod fields;
mod host;
mod line;
mod malformed;
mod params;
mod path;
mod path_match;
mod pattern;
mod preflight;
pub mod scan;
mod view;

pub use address::push_address;
pub use ambiguity::Ambiguity;
pub use content::{Content, ContentFault, ContentSize, ContentValue, ContentValues, ContentWord};
pub use disguise::{folded_name, is_disguised, is_plain_name, plain_len};
pub use fields::Fields;
pub use host::normal_host;
pub(crate) use host::without_port;
pub use line::{REFUSED_METHOD, is_method, method_of, target_len, target_of};
pub use malformed::Malformed;
pub use params::Params;
pub use path::{is_path_character, loose_path, normal_path, slashed_path, without_parameters};
pub use path_match::PathMatch;
pub use pattern::{
    MAX_SEGMENTS, PathPattern, PathPatternError, Segment, is_parameter_name, segments,
};
pub(crate) use view::Forwarding;
pub use view::RequestView;

//! A request as the rules see it: borrowed, and the same whether it came over
//! HTTP, from another gateway's question, or out of a log.
//!
//! A view exists only of a request that means one thing. What a backend might
//! read otherwise than we do (two hosts, dot segments, a bad escape) is refused
//! here, before any rule has looked at it.

mod ambiguity;
mod disguise;
mod host;
mod malformed;
mod params;
mod path;
mod path_match;
mod pattern;
mod view;

pub use ambiguity::Ambiguity;
pub use disguise::{folded_name, is_disguised, is_plain_name};
pub use host::normal_host;
pub use malformed::Malformed;
pub use params::Params;
pub use path::{is_path_character, loose_path, normal_path, slashed_path, without_parameters};
pub use path_match::PathMatch;
pub use pattern::{
    MAX_SEGMENTS, PathPattern, PathPatternError, Segment, is_parameter_name, segments,
};
pub use view::RequestView;

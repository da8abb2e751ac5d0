//! The limit of a single key.

use std::fmt;

use crate::algorithm::WindowText;
use crate::time::Span;

/// The limit that replaces that of the policy for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Override {
    /// No limit at all.
    Unlimited,
    /// Another limit.
    Limited {
        /// The limit.
        units: u64,
        /// Its window, if it differs from that of the policy.
        window: Option<Span>,
    },
}

/// Formats the limit as it is written: `500/1m`, `500/month`, `500` or `unlimited`.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Limited { units, window: None } => write!(f, "{units}"),
            Self::Limited { units, window: Some(window) } => {
                write!(f, "{units}/{}", WindowText(window))
            }
        }
    }
}

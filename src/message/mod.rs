//! Messages that the gateway itself writes or changes.

mod template;

pub use template::Template;

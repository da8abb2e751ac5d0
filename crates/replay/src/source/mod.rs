//! Where the lines of logs come from: files and standard input, compressed or not.

mod input;
mod lines;
mod merged;

pub use input::Input;
pub use merged::SourceError;
pub(crate) use merged::{FEW, MANY, Merged, Numbered};

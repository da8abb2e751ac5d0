//! Where the lines of logs come from: files and standard input, compressed or not.

mod input;
mod lines;
mod merged;

pub(crate) use input::Input;
pub(crate) use merged::{Merged, Numbered, SourceError};

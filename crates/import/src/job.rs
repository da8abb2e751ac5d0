//! What is to be imported.

use std::path::PathBuf;

use crate::kind::Kind;

/// What is to be imported.
#[derive(Clone, Debug)]
pub struct Job {
    /// Whose configuration it is.
    pub kind: Kind,
    /// The files, in their order. `-` is standard input.
    pub files: Vec<PathBuf>,
    /// Where requests go that cannot be served here: the URL of the old server.
    pub rest: Option<String>,
    /// The names of constructs whose loss is accepted.
    pub accept: Vec<String>,
    /// How many nodes of the old gateway counted, each on its own.
    pub nodes: Option<u32>,
}

//! The script that decides in Redis. It is the boundary between the code for limits and the
//! code for connections.
//!
//! A batch is one call: `EVALSHA sha count keys… now body…`. The keys are those of all bodies,
//! in their order. Each body has the number of its own keys. `now` is in microseconds since
//! 1970, or 0 for the server's clock. The reply is a list with one string for each body. The
//! bodies of a call are decided one after the other, each in one step.

use std::sync::LazyLock;

use bytes::Bytes;
use smallvec::SmallVec;

#[cfg(test)]
pub(super) mod tests;

/// A decision or a correction, as keys and bytes for the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Its buckets, one for each principal. In a cluster all of them must be in one slot.
    pub keys: SmallVec<[Bytes; 2]>,
    /// The operations.
    pub body: Bytes,
}

/// The script.
#[derive(Clone, Debug)]
pub struct Script {
    /// The source, for `SCRIPT LOAD`.
    pub source: &'static str,
    /// The SHA-1 of the source in hexadecimal, for `EVALSHA`.
    pub sha: Box<str>,
}

/// The script of this version.
pub static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::of(SOURCE));

impl Script {
    /// The script with this source.
    pub fn of(source: &'static str) -> Self {
        Self { source, sha: redis::Script::new(source).get_hash().into() }
    }
}

/// The code of one kind of counter. It uses no local variables around it, so that defining it
/// is cheap where it is not needed.
macro_rules! kind {
    ($name:literal, $($file:literal),+) => {
        concat!(
            "local function define_",
            $name,
            "(read, write, read_two, write_two, product_over, begin_state, slide)\n",
            include_str!("lua/builtins.lua"),
            $(include_str!(concat!("lua/", $file, ".lua")),)+
            "return ",
            $name,
            "\nend\n",
        )
    };
}

/// Each call takes time to define functions, so functions that few bodies need are defined when
/// the first of these bodies comes.
const SOURCE: &str = concat!(
    include_str!("lua/numbers.lua"),
    include_str!("lua/state.lua"),
    include_str!("lua/slide.lua"),
    "local function define_field(read, end_of, live_until)\n",
    include_str!("lua/builtins.lua"),
    include_str!("lua/field.lua"),
    "end\n",
    "local function define_decide(",
    "read, write, product_over, end_of, begin_state, slide, fetch, keep, find, skip)\n",
    include_str!("lua/builtins.lua"),
    include_str!("lua/arithmetic.lua"),
    kind!("sliding_window", "sliding_window"),
    kind!("sub_windows", "sub_windows"),
    kind!("fixed_window", "fixed_window"),
    kind!("sliding_log", "sliding_log"),
    kind!("levels", "level"),
    kind!("concurrency", "concurrency"),
    kind!("ban", "ban"),
    kind!("long_log", "log_pieces", "log_view", "long_log"),
    include_str!("lua/decide.lua"),
    "end\n",
    include_str!("lua/batch.lua"),
);

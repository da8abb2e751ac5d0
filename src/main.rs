//! The program `tollgate`; see [`tollgate::cli`].

use std::process::ExitCode;

/// Threads free what others allocated all the time here, which this allocator
/// does without a lock.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tollgate::cli::main()
}

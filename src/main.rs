//! The program `tollgate`; see [`tollgate::cli`].

use std::process::ExitCode;

/// Workers often free memory that another thread has allocated. This allocator does that
/// without a lock.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tollgate::cli::main()
}

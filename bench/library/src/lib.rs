//! The benchmarks are in `benches`.

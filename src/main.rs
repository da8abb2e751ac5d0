//! Tollgate.
fn main() {}

//! The house rules that the compiler and clippy cannot check, as tests: which module may use which,
//! how long a file is, what documents promise.
//!
//! This crate is for those who change Tollgate; no other crate uses it. It needs nothing outside
//! `std`, so that `cargo test --package tollgate-tidy` answers before anything else is compiled.
//!
//! A rule is a function from the `Tree` of the project's files to its findings. The tests in
//! `rules` apply every rule to the real tree. The tests beside each rule apply it to a small tree
//! with a fault that it must find. A new crate of the workspace gets a row in `crates`.

#[cfg(test)]
mod api;
#[cfg(test)]
mod chains;
#[cfg(test)]
mod code;
#[cfg(test)]
mod crates;
#[cfg(test)]
mod cycles;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod functions;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod locks;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod names;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod portability;
#[cfg(test)]
mod prose;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod scratch;
#[cfg(test)]
mod targets;
#[cfg(test)]
mod text;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod tuples;
#[cfg(test)]
mod versions;

//! The heaviest clients of each policy.
mod sketch;

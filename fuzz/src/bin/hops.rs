//! Fuzzes the fields of a message that is passed on.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::hops(input));

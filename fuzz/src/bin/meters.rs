//! Fuzzes the cost in a response.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::meters(input));

//! Fuzzes the host of a request.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::hosts(input));

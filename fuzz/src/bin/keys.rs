//! Fuzzes what a request is counted by.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::keys(input));

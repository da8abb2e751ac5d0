//! Fuzzes bearer tokens.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::jwt(input));

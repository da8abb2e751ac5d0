//! Fuzzes the texts of API keys.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::api_keys(input));

//! Fuzzes the response of an endpoint.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::responses(input));

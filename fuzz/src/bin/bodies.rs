//! Fuzzes the values in the bodies of requests.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::bodies(input));

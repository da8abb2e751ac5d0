//! Fuzzes the questions to the rate limit service.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::descriptors(input));

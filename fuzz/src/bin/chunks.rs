//! Fuzzes a body in chunks.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::chunks(input));

//! Fuzzes patterns of origins, and origins.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::origins(input));

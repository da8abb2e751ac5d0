//! Fuzzes the places of mistakes in JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::pointers(input));

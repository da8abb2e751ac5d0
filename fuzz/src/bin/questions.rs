//! Fuzzes the questions of other services.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::questions(input));

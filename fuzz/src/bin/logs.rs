//! Fuzzes the lines of access logs.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::logs(input));

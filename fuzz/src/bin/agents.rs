//! Fuzzes requests that agents have signed.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::agents(input));

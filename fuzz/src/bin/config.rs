//! Fuzzes the text of a configuration.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::config(input));

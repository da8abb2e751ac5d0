//! Fuzzes a connection of HTTP/1.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::guard(input));

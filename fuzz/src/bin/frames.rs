//! Fuzzes the frames of HTTP/2.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::frames(input));

//! Fuzzes the PROXY protocol.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::proxied(input));

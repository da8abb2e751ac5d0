//! Fuzzes the certificate of a client.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::certificate(input));

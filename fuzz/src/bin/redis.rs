//! Fuzzes the answers of Redis.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::redis(input));

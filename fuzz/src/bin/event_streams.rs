//! Fuzzes event streams of AWS.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate::fuzzing::event_streams(input));
